"""Profiles: the privacy loss of a record of a given norm at a given weight."""

from pais.privacy.profiles.base import Assumptions, Finding, Profile, PureProfile, ShiftProfile, Verdict
from pais.privacy.profiles.custom import CustomProfile, CustomShiftProfile, joint_loss, joint_shift
from pais.privacy.profiles.gaussian import GaussianProfile, add_profiles
from pais.privacy.profiles.power import LinearProfile, PowerProfile

__all__ = [
    "Assumptions",
    "CustomProfile",
    "CustomShiftProfile",
    "Finding",
    "GaussianProfile",
    "LinearProfile",
    "PowerProfile",
    "Profile",
    "PureProfile",
    "ShiftProfile",
    "Verdict",
    "add_profiles",
    "joint_loss",
    "joint_shift",
]
