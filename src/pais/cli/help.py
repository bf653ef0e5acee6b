"""Commands whose help shows flags without a type, whose messages name options, and that take a list once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pais.cli.spelling import spelling

# Arguments that have another name on the command line, or that `pais check` mentions for other commands.
_ELSEWHERE = {"random_state": "--seed", "missing": "--missing"}

# Options that take several parts with commas between them.
_LISTS = ("columns", "by", "carry", "classes", "q")


class Command(TyperCommand):
    """A command whose help shows flags without a type. Messages of the package name its options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    @property
    def options(self) -> dict[str, str]:
        """The options by the names of their arguments."""
        own = {str(parameter.name): parameter.opts[0] for parameter in self.params if parameter.opts[0][:2] == "--"}
        return _ELSEWHERE | own

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. A list that is passed in two options is refused, since only the second would count."""
        if not ctx.resilient_parsing:
            _, _, passed = self.make_parser(ctx).parse_args(args=list(args))
            for parameter, number in Counter(passed).items():
                if number > 1 and parameter.name in _LISTS:
                    raise typer.BadParameter(
                        f"{parameter.opts[0]} is passed {number} times. Pass it once, with commas between its parts."
                    )
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

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
