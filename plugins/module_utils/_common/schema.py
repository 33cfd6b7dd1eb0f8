# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Schemas of what users write, and everything that is wrong with it at once: each problem with its path and what would be right.

Types are checked strictly: nothing is converted.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, did_you_mean

T = t.TypeVar("T")
Data = dict[str, t.Any]

_TYPE_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a dictionary",
    list: "a list",
}


@dataclasses.dataclass(frozen=True)
class Field:
    """One entry of the schema.

    :ivar kind: Python type of its value.
    :ivar default: what holds where it is not given; None for nothing.
    :ivar choices: the only values that are allowed; empty for any.
    :ivar fields: of a dictionary, or of each dictionary in a list.
    """

    kind: type
    doc: str
    default: t.Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    fields: dict[str, Field] = dataclasses.field(default_factory=dict)


Fields = dict[str, Field]


class Problems(list[str]):
    """What is wrong, each with the variable's path."""

    def add(self, path: str, text: str) -> None:
        """Add one problem with its path."""
        self.append(f"{path}: {text}")

    def raise_if_any(self, what: str) -> None:
        """Raise TenancyError once for all problems; without any, go on."""
        if self:
            count = "1 problem" if len(self) == 1 else f"{len(self)} problems"
            raise TenancyError("\n".join([f"{count} in {what}, nothing was changed:", *self]), problems=list(self))

    def typed(self, value: t.Any, kind: type, path: str) -> bool:
        """Tell whether a value has a type; if not, add the problem."""
        # To Python true is an int; to people it is not, and a whole number is a number.
        right = isinstance(value, (int, float) if kind is float else kind) and not (kind is not bool and isinstance(value, bool))
        if not right:
            hint = "; quote it" if kind is str and isinstance(value, (int, float)) else ""
            # A whole tree would drown the message, and may hold what is nobody's business.
            given = _TYPE_NAMES[type(value)] if isinstance(value, (dict, list)) else repr(value)
            self.add(path, f"must be {_TYPE_NAMES[kind]}, not {given}{hint}.")
        return right

    def mapping(self, value: t.Any, allowed: Fields, path: str) -> Data:
        """Return the entries of a dictionary that are allowed and of the right type."""
        if not self.typed(value, dict, path):
            return {}
        for key in value:
            if key not in allowed:
                self.add(f"{path}.{key}", f"unknown key.{did_you_mean(key, allowed)} Allowed here: {', '.join(allowed)}.")
        for key, field in allowed.items():
            if field.required and key not in value:
                self.add(f"{path}.{key}", "is missing.")
        found = {
            key: value[key]
            for key, field in allowed.items()
            if key in value and self.typed(value[key], field.kind, f"{path}.{key}")
        }
        return {key: item for key, item in found.items() if self.allowed(item, allowed[key].choices, f"{path}.{key}")}

    def allowed(self, value: t.Any, choices: t.Sequence[str], path: str) -> bool:
        """Tell whether a value is one of the choices, if there are any; if not, add the problem."""
        right = not choices or value in choices
        if not right:
            self.add(path, f"{value!r} is not one of {', '.join(choices)}.")
        return right

    def ask(self, path: str, check: t.Callable[[], T]) -> T | None:
        """Return the result of a check that lives elsewhere; the path in its problems is relative to ``path``."""
        try:
            return check()
        except TenancyError as exc:
            self.extend(f"{path}.{problem}" for problem in exc.problems)
            return None


def plain(value: t.Any) -> t.Any:
    """Return a value with dictionaries and lists of Python's own: Ansible's templated ones cannot be copied."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value
