"""Commands whose help shows flags without a type, and whose messages name options."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from pais.cli.spelling import spelling

# Arguments that have another name on the command line, or that `pais check` mentions for other commands.
_ELSEWHERE = {"random_state": "--seed", "missing": "--missing"}


class Command(TyperCommand):
    """A command whose help shows flags without a type. Messages of the package name its options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    @property
    def options(self) -> dict[str, str]:
        """The options by the names of their arguments."""
        own = {str(parameter.name): parameter.opts[0] for parameter in self.params if parameter.opts[0][:2] == "--"}
        return _ELSEWHERE | own

    def invoke(self, ctx: Any) -> Any:
        with spelling(self.options):
            return super().invoke(ctx)


class Group(TyperGroup):
    """The program itself, shown in the same way as its commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
