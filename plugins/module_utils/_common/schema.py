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
import itertools
import re
import typing as t

from .documents import DEEPEST
from .errors import Problem, Refused, TenancyError, did_you_mean, refuse
from .quantity import MOST
from .text import shown
from .values import JsonObject

T = t.TypeVar("T")
# Where something stands: its key, and the place of what it stands in.
_Place = t.Optional[tuple[t.Any, t.Any]]

# Values in all that is given at once; five thousand tenants, each with a tree of queues, are about half a million.
_MOST_VALUES = 2_000_000
# Characters of a value, or of a key, that a refusal repeats; characters of a refusal, and problems that it lists.
_LONGEST = 80
_LONGEST_PROBLEM = 4000
_MOST_PROBLEMS = 500

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


class Problems(list[Problem]):
    """What is wrong, each with the variable's path."""

    def add(self, code: str, path: str, text: str) -> None:
        """Add one problem with its path; what was given with another type is not missing as well."""
        if code == "missing" and any(problem.text.startswith(f"{path}: ") for problem in self):
            return
        self.append(Problem(code, f"{path}: {text}"))

    def raise_if_any(self, what: str) -> None:
        """Raise TenancyError once for all problems, which name what was given and are cut; without any, go on."""
        if self:
            count = "1 problem" if len(self) == 1 else f"{len(self)} problems"
            told = [Problem(problem.code, shown(problem.text, _LONGEST_PROBLEM)) for problem in self[:_MOST_PROBLEMS]]
            more = [f"and {len(self) - _MOST_PROBLEMS} more"] if len(self) > _MOST_PROBLEMS else []
            lines = [f"{count} in {what}, nothing was changed:", *(problem.text for problem in told), *more]
            raise Refused("\n".join(lines), told)

    def typed(self, value: t.Any, kind: type, path: str) -> bool:
        """Tell whether a value has a type; if not, add the problem."""
        # To Python true is an int; to people it is not, and a whole number is a number.
        right = isinstance(value, (int, float) if kind is float else kind) and not (kind is not bool and isinstance(value, bool))
        if not right:
            hint = "; quote it" if kind is str and isinstance(value, (int, float)) else ""
            self.add("wrong-type", path, f"must be {_TYPE_NAMES[kind]}, not {quoted(value)}{hint}.")
        return right

    def mapping(self, value: t.Any, allowed: Fields, path: str) -> JsonObject:
        """Return the entries of a dictionary that are allowed and of the right type."""
        if not self.typed(value, dict, path):
            return {}
        for key in value:
            if key not in allowed:
                hint = did_you_mean(key, allowed)
                self.add("unknown-key", f"{path}.{named(key)}", f"unknown key.{hint} Allowed here: {', '.join(allowed)}.")
        for key, field in allowed.items():
            if field.required and key not in value:
                self.add("missing", f"{path}.{key}", "is missing.")
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
            self.add("not-a-choice", path, f"{quoted(value)} is not one of {', '.join(choices)}.")
        return right

    def ask(self, before: str, check: t.Callable[[], T]) -> T | None:
        """Return the result of a check that lives elsewhere; None where it refuses.

        :arg before: what comes before the paths of its problems, such as ``trace.``
        """
        try:
            return check()
        except TenancyError as exc:
            self.extend(problem.within(before) for problem in exc.problems)
            return None


def quoted(value: t.Any) -> str:
    """Return a value as a refusal repeats it: one line, cut. A whole tree would drown it, and may hold confidential data."""
    if isinstance(value, (dict, list)):
        return _TYPE_NAMES[dict if isinstance(value, dict) else list]
    # Python refuses to write out a number of thousands of digits.
    beyond = isinstance(value, int) and not -MOST <= value <= MOST
    return "a number beyond 2^63" if beyond else shown(repr(value), _LONGEST)


def named(key: t.Any) -> str:
    """Return a key as it stands in the path of a problem: one line, cut."""
    return shown(key if isinstance(key, str) else quoted(key), _LONGEST)


def check_least(options: t.Mapping[str, t.Any], least: t.Mapping[str, float]) -> None:
    """Refuse numbers that are too small, beyond 2^63, or none at all, such as nan; None is an option that is not given.

    :arg least: by the name of an option, the smallest number that it takes.
    :raises TenancyError: with all ``problems``.
    """
    found = {name: options.get(name) for name in least}
    bounds = {
        name: f"at least {least[name]}" if not value > MOST else "at most 2^63"
        for name, value in found.items()
        if value is not None and not least[name] <= value <= MOST
    }
    refuse(Problem("out-of-range", f"{name}: must be {bound}, not {quoted(found[name])}.") for name, bound in bounds.items())


# Half of a character that UTF-16 writes as two.
_LONE = re.compile("[\ud800-\udfff]")


def plain(value: t.Any, problems: Problems | None = None, root: str = "") -> t.Any:
    """Return a value with dictionaries and lists of Python's own: Ansible's templated ones cannot be copied.

    All data of users comes through here first. What comes out can be copied, merged and written as JSON.

    :arg problems: gets what is wrong: keys that are no texts, which are left out, numbers that are none of Kubernetes', which become 0, and texts
        that cannot be written, which become empty. None has it raised.
    :arg root: the value's path.
    :raises TenancyError: where it is nested deeper than DEEPEST, holds itself, or has more values than any inventory.
    """
    found = Problems() if problems is None else problems
    copied = _plain(value, (root, None), 0, itertools.count(), found)
    if problems is None:
        found.raise_if_any("what was given")
    return copied


def _plain(value: t.Any, place: _Place, level: int, count: t.Iterator[int], problems: Problems) -> t.Any:
    """Copy a value.

    :arg place: where it stands; ``level``, how deep. ``count`` gives the number of values before it.
    """
    if level > DEEPEST:
        refuse([Problem("nested-too-deep", f"{_path(place, 4)}: is nested more than {DEEPEST} deep, or holds itself.")])
    if next(count) >= _MOST_VALUES:
        text = f"there are more than {_MOST_VALUES} values up to here, or one holds itself."
        refuse([Problem("too-many-values", f"{_path(place, 4)}: {text}")])
    if isinstance(value, dict):
        for key in [key for key in value if not isinstance(key, str)]:
            problems.add("wrong-type", _path((quoted(key), place)), f"its key must be a string, not {quoted(key)}; quote it.")
        items = [(key, item) for key, item in value.items() if isinstance(key, str)]
        return {key: _plain(item, (key, place), level + 1, count, problems) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [_plain(item, (number, place), level + 1, count, problems) for number, item in enumerate(value)]
    if isinstance(value, (int, float)) and not -MOST <= value <= MOST:
        text = f"{quoted(value)} is no number from -2^63 to 2^63, which is all that Kubernetes knows."
        problems.add("out-of-range", _path(place), text)
        return 0
    if isinstance(value, str) and _LONE.search(value):
        problems.add("wrong-type", _path(place), "holds half of a character, which no file of text can have.")
        return ""
    return value


def _path(place: _Place, most: int = DEEPEST) -> str:
    """Return a place as the path that problems have, of its first parts where there are more than so many."""
    parts: list[t.Any] = []
    while place is not None:
        key, place = place
        parts.insert(0, key)
    # Numbers are places in lists.
    told = "".join(f"[{key}]" if isinstance(key, int) else f".{named(key)}" for key in parts[:most])
    return told.lstrip(".") + ("…" if len(parts) > most else "")
