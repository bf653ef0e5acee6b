"""Profiles: the privacy loss of a record of a given norm at a given weight."""

from pais.profiles.base import Assumptions, Finding, Profile, PureProfile, Verdict
from pais.profiles.custom import CustomProfile
from pais.profiles.gaussian import GaussianProfile
from pais.profiles.power import LinearProfile, PowerProfile

__all__ = [
    "Assumptions",
    "CustomProfile",
    "Finding",
    "GaussianProfile",
    "LinearProfile",
    "PowerProfile",
    "Profile",
    "PureProfile",
    "Verdict",
]
