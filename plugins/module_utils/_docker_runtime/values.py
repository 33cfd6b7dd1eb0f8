# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Edit Docker's daemon.json: add a runtime, make it the default, switch CDI on; and take exactly that out again.

The file's text is edited, not rewritten: every other byte stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from .facts import DEFAULT, Path
from .validation import decode, parse_text

INDENT = "    "
SPACE = re.compile(r"[ \t\r\n]*")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The settings that daemon.json has to have.

    :ivar name: the runtime's name; ``path``, its program.
    :ivar default: whether it is the default runtime; False leaves the default alone.
    :ivar cdi: None leaves ``features.cdi`` alone.
    """

    name: str
    path: str
    default: bool
    cdi: bool | None = None

    def settings(self) -> dict[Path, t.Any]:
        """Return each setting's value by its path."""
        return {
            **({DEFAULT: self.name} if self.default else {}),
            **({("features", "cdi"): self.cdi} if self.cdi is not None else {}),
            ("runtimes", self.name): {"args": [], "path": self.path},
        }


@dataclasses.dataclass(frozen=True)
class Undone:
    """The file without the settings of this collection.

    :ivar content: None when nothing remains of a file that did not exist before.
    :ivar kept: settings that were changed by hand since, and that therefore stay.
    :ivar conflicts: settings of which neither the one nor the other value is surely right, each with all its versions.
    """

    content: bytes | None
    kept: list[str]
    conflicts: list[dict[str, t.Any]]


def edit(content: bytes | None, wanted: Wanted, name: str = "daemon.json") -> bytes:
    """Return the file's content with these settings; the same bytes when it has them already.

    :raises TenancyError: when the file is not valid, see ``parse``.
    """
    text = decode(content, name)
    document = parse_text(text, name)
    for path, value in wanted.settings().items():
        if not _equal(lookup(document, path), value):
            text = _set(text, path, value)
    parse_text(text, name)
    return text.encode()


def undo(present: bytes, left: bytes, original: bytes | None, name: str = "daemon.json") -> Undone:
    """Take out of ``present``, which was edited by hand, what made ``left`` out of ``original``.

    A setting that is still as it was left goes back to what it was; any other was a user's decision and stays.
    Two edits are no clear decision, and are conflicts. One is a changed entry of the owned runtime while the owned default still
    names it: to keep it is as likely to be wanted as to have tuned it only. The other is one that would leave Docker with a
    default runtime that it does not have.
    """
    if present == left:
        return Undone(original, [], [])
    text, former = decode(present, name), decode(original, name)
    now, written, before = parse_text(text, name), parse_text(decode(left, name), name), parse_text(former, name)
    kept, edited = [], []
    for path in setting_differences(before, written):
        value = lookup(now, path)
        if not _equal(value, lookup(written, path)):
            if value != lookup(before, path):
                kept.append(".".join(path))
                edited += [path] if path[0] == "runtimes" and value is not None else []
        elif lookup(before, path) is None:
            # An object that only the owned setting needed goes too.
            text = _remove(text, path, parent_stays=len(path) == 1 or lookup(before, path[:-1]) is not None)
        else:
            here, there = _find(text, path), _find(former, path)
            text = text[: here.value] + former[there.value : there.end] + text[here.end :]
    result = parse_text(text, name)
    if DEFAULT not in setting_differences(before, written) or lookup(now, DEFAULT) != lookup(written, DEFAULT):
        edited = []
    default = ("runtimes", result.get("default-runtime", ""))
    if lookup(result, default) is None and (lookup(now, default) or lookup(before, default)) is not None:
        edited.append(default)
    conflicts = [
        {"setting": ".".join(path), "before": lookup(before, path), "written": lookup(written, path), "now": lookup(now, path)}
        for path in edited
    ]
    return Undone(None if original is None and not result else text.encode(), kept, conflicts)


def setting_differences(before: dict[str, t.Any], after: dict[str, t.Any]) -> dict[Path, t.Any]:
    """Return the settings in which ``after`` differs, of the settings that ``edit`` may set, with their values."""
    paths: list[Path] = [DEFAULT]
    paths += [(key, name) for key in ("features", "runtimes") for name in after.get(key, {})]
    return {path: lookup(after, path) for path in paths if lookup(before, path) != lookup(after, path)}


def _equal(live: t.Any, value: t.Any) -> bool:
    # A runtime without "args" has none.
    return bool(live == value or (isinstance(live, dict) and {"args": []} | live == value))


def lookup(document: t.Any, path: Path) -> t.Any:
    """Return the value at ``path``, or None."""
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document


# --- the text ---


class _Member(t.NamedTuple):
    key: str
    start: int
    value: int
    end: int


class _Object(t.NamedTuple):
    """The place of an object in the text: from its opening brace to behind its closing one."""

    start: int
    members: list[_Member]
    end: int

    def get(self, key: str) -> _Member | None:
        return next((member for member in self.members if member.key == key), None)


def _object(text: str, position: int) -> _Object:
    """Locate the object at ``position`` of a text that is known to be valid."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)

    def skip(at: int) -> int:
        return t.cast("re.Match[str]", SPACE.match(text, at)).end()

    start = skip(position)
    members: list[_Member] = []
    at = skip(start + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        value = skip(skip(end) + 1)
        _value, end = decoder.raw_decode(text, value)
        members.append(_Member(key, at, value, end))
        at = skip(end)
        if text[at] == ",":
            at = skip(at + 1)
    return _Object(start, members, at + 1)


def _find(text: str, path: Path) -> _Member:
    """Locate the member at ``path``, which is known to exist."""
    position = 0
    for key in path:
        member = t.cast(_Member, _object(text, position).get(key))
        position = member.value
    return member


def _indent(text: str) -> str | None:
    """Return the file's indentation; None when it is one line."""
    first = re.search(r'\{[ \t]*\r?\n([ \t]+)"', text)
    return first[1] if first else (INDENT if re.fullmatch(r"\s*\{\s*\}\s*", text) else None)


def _dump(value: t.Any, indent: str | None, depth: int) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", "\n" + (indent or "") * depth)


def _set(text: str, path: Path, value: t.Any) -> str:
    """Replace the value at ``path``, or add it with the objects that are missing on the way."""
    indent = _indent(text)
    parent, depth = _object(text, 0), 0
    while (member := parent.get(path[depth])) and depth + 1 < len(path):
        parent, depth = _object(text, member.value), depth + 1
    if member:
        return text[: member.value] + _dump(value, indent, depth + 1) + text[member.end :]
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    new = f"{json.dumps(path[depth])}: {_dump(value, indent, depth + 1)}"
    if parent.members:
        last = parent.members[-1].end
        return text[:last] + "," + (" " if indent is None else "\n" + indent * (depth + 1)) + new + text[last:]
    if indent is not None:
        new = "\n" + indent * (depth + 1) + new + "\n" + indent * depth
    return text[: parent.start] + "{" + new + "}" + text[parent.end :]


def _remove(text: str, path: Path, parent_stays: bool) -> str:
    """Remove a member, and with it the object that holds it, if that is empty then and need not stay."""
    parent = _object(text, _find(text, path[:-1]).value if path[:-1] else 0)
    place = [member.key for member in parent.members].index(path[-1])
    if len(parent.members) == 1:
        if not parent_stays:
            return _remove(text, path[:-1], parent_stays=True)
        return text[: parent.start] + "{}" + text[parent.end :]
    if place == 0:
        return text[: parent.members[0].start] + text[parent.members[1].start :]
    return text[: parent.members[place - 1].end] + text[parent.members[place].end :]
