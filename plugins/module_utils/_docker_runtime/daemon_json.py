# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Docker's daemon.json: add a runtime, make it the default, switch CDI on; and take exactly that out again.

The file's text is edited, not rewritten: every other byte stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

Path = tuple[str, ...]

DEFAULT: Path = ("default-runtime",)
INDENT = "    "
SPACE = re.compile(r"[ \t\r\n]*")


class Number(str):
    """A number as it is spelled: Python must not round it, nor choke on a long one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str.__eq__(self, other)

    __hash__ = str.__hash__


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What daemon.json has to say.

    :ivar cdi: None leaves ``features.cdi`` alone.
    """

    name: str
    path: str
    default: bool
    cdi: bool | None = None

    def settings(self) -> dict[Path, t.Any]:
        """Each setting by where it stands."""
        return {
            **({DEFAULT: self.name} if self.default else {}),
            **({("features", "cdi"): self.cdi} if self.cdi is not None else {}),
            ("runtimes", self.name): {"args": [], "path": self.path},
        }


@dataclasses.dataclass(frozen=True)
class Undone:
    """What is left when our settings are out.

    :ivar content: None when nothing remains of a file that did not exist before.
    :ivar kept: settings that somebody has changed since, and that therefore stay.
    :ivar conflicts: settings of which neither the one nor the other value is surely right, each with all its versions.
    """

    content: bytes | None
    kept: list[str]
    conflicts: list[dict[str, t.Any]]


def parse(content: bytes | None, name: str = "daemon.json") -> dict[str, t.Any]:
    """The document, strictly.

    :arg name: how messages call the file.
    :raises TenancyError: for everything dockerd would refuse or silently misread.
    """
    return _parse(_text(content, name), name)


def edit(content: bytes | None, wanted: Wanted, name: str = "daemon.json") -> bytes:
    """The file's content with these settings; the same bytes when it has them already."""
    text = _text(content, name)
    document = _parse(text, name)
    for path, value in wanted.settings().items():
        if not _equal(lookup(document, path), value):
            text = _set(text, path, value)
    _parse(text, name)
    return text.encode()


def undo(present: bytes, left: bytes, original: bytes | None, name: str = "daemon.json") -> Undone:
    """Take out of ``present``, which somebody edited, what made ``left`` out of ``original``.

    A setting that still is as we left it goes back to what it was; any other was somebody's decision and stays.
    Two edits are no clear decision. A changed entry of our runtime while our default still names it: that they want to keep
    it is as likely as that they only tuned it. And what would leave Docker with a default runtime that it does not have.
    """
    if present == left:
        return Undone(original, [], [])
    text, former = _text(present, name), _text(original, name)
    now, ours, before = _parse(text, name), _parse(_text(left, name), name), _parse(former, name)
    kept, edited = [], []
    for path in differences(before, ours):
        value = lookup(now, path)
        if not _equal(value, lookup(ours, path)):
            if value != lookup(before, path):
                kept.append(".".join(path))
                edited += [path] if path[0] == "runtimes" and value is not None else []
        elif lookup(before, path) is None:
            # An object that only we needed goes too.
            text = _remove(text, path, parent_stays=len(path) == 1 or lookup(before, path[:-1]) is not None)
        else:
            here, there = _find(text, path), _find(former, path)
            text = text[: here.value] + former[there.value : there.end] + text[here.end :]
    result = _parse(text, name)
    if DEFAULT not in differences(before, ours) or lookup(now, DEFAULT) != lookup(ours, DEFAULT):
        edited = []
    default = ("runtimes", result.get("default-runtime", ""))
    if lookup(result, default) is None and (lookup(now, default) or lookup(before, default)) is not None:
        edited.append(default)
    conflicts = [
        {"setting": ".".join(path), "before": lookup(before, path), "ours": lookup(ours, path), "now": lookup(now, path)}
        for path in edited
    ]
    return Undone(None if original is None and not result else text.encode(), kept, conflicts)


def differences(before: dict[str, t.Any], after: dict[str, t.Any]) -> dict[Path, t.Any]:
    """Where ``after`` differs in what an edit of ours may set, and what it says there."""
    paths: list[Path] = [DEFAULT]
    paths += [(key, name) for key in ("features", "runtimes") for name in after.get(key, {})]
    return {path: lookup(after, path) for path in paths if lookup(before, path) != lookup(after, path)}


def _text(content: bytes | None, name: str) -> str:
    if content is None:
        return "{}"
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in content:
        raise TenancyError(f"{name} holds NUL bytes, as UTF-16 does: save it as UTF-8.")
    if content.startswith(b"\xef\xbb\xbf"):
        raise TenancyError(f"{name} starts with a byte-order mark, which not every release of Docker accepts: remove it.")
    if not content.strip():
        raise TenancyError(f"{name} is empty: remove it, or write {{}} into it.")
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise TenancyError(f"{name} is not UTF-8: {exc}") from exc


def _parse(text: str, name: str) -> dict[str, t.Any]:
    def pairs(items: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
        keys = [key for key, _value in items]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise TenancyError(f"{name} names a key twice: {', '.join(twice)}. Keep the one that is meant.")
        return dict(items)

    def constant(value: str) -> t.Any:
        raise TenancyError(f"{name} is not valid JSON: {value} is no value.")

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_int=Number, parse_float=Number, parse_constant=constant)
    except json.JSONDecodeError as exc:
        raise TenancyError(f"{name} is not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise TenancyError(f"{name} is nested too deeply.") from exc
    if not isinstance(document, dict):
        raise TenancyError(f"{name} has to be a JSON object.")
    _check(document, name)
    return document


def _check(document: dict[str, t.Any], name: str) -> None:
    """The parts that we read have to be what dockerd makes of them."""
    for key in ("runtimes", "features"):
        if not isinstance(document.get(key, {}), dict):
            raise TenancyError(f"{key} in {name} has to be an object.")
    for key, value in document.get("runtimes", {}).items():
        if not isinstance(value, dict):
            raise TenancyError(f"runtimes.{key} in {name} has to be an object.")
    for key, value in document.get("features", {}).items():
        if not isinstance(value, bool):
            raise TenancyError(f"features.{key} in {name} has to be true or false.")
    default = document.get("default-runtime", "runc")
    if not isinstance(default, str) or isinstance(default, Number) or not default:
        raise TenancyError(f"default-runtime in {name} has to be a runtime's name.")


def _equal(found: t.Any, value: t.Any) -> bool:
    # A runtime without "args" has none.
    return bool(found == value or (isinstance(found, dict) and {"args": []} | found == value))


def lookup(document: t.Any, path: Path) -> t.Any:
    """What stands at ``path``, or None."""
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
    """Where an object stands in the text: from its opening brace to behind its closing one."""

    start: int
    members: list[_Member]
    end: int

    def get(self, key: str) -> _Member | None:
        return next((member for member in self.members if member.key == key), None)


def _object(text: str, position: int) -> _Object:
    """The object at ``position`` of a text that is known to be valid."""
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
    """The member at ``path``, which is known to be there."""
    position = 0
    for key in path:
        member = t.cast(_Member, _object(text, position).get(key))
        position = member.value
    return member


def _indent(text: str) -> str | None:
    """The file's indentation; None when it stands on one line."""
    first = re.search(r'\{[ \t]*\r?\n([ \t]+)"', text)
    return first[1] if first else (INDENT if re.fullmatch(r"\s*\{\s*\}\s*", text) else None)


def _dump(value: t.Any, indent: str | None, depth: int) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", "\n" + (indent or "") * depth)


def _set(text: str, path: Path, value: t.Any) -> str:
    indent = _indent(text)
    found, depth = _object(text, 0), 0
    while (member := found.get(path[depth])) and depth + 1 < len(path):
        found, depth = _object(text, member.value), depth + 1
    if member:
        return text[: member.value] + _dump(value, indent, depth + 1) + text[member.end :]
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    new = f"{json.dumps(path[depth])}: {_dump(value, indent, depth + 1)}"
    if found.members:
        last = found.members[-1].end
        return text[:last] + "," + (" " if indent is None else "\n" + indent * (depth + 1)) + new + text[last:]
    if indent is not None:
        new = "\n" + indent * (depth + 1) + new + "\n" + indent * depth
    return text[: found.start] + "{" + new + "}" + text[found.end :]


def _remove(text: str, path: Path, parent_stays: bool) -> str:
    """Remove a member; with it the object it stands in, if that is empty then and may go."""
    found = _object(text, _find(text, path[:-1]).value if path[:-1] else 0)
    place = [member.key for member in found.members].index(path[-1])
    if len(found.members) == 1:
        if not parent_stays:
            return _remove(text, path[:-1], parent_stays=True)
        return text[: found.start] + "{}" + text[found.end :]
    if place == 0:
        return text[: found.members[0].start] + text[found.members[1].start :]
    return text[: found.members[place - 1].end] + text[found.members[place].end :]
