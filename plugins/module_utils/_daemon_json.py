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

from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError

Path = tuple[str, ...]

INDENT = "    "
SPACE = re.compile(r"[ \t\r\n]*")


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
            **({("default-runtime",): self.name} if self.default else {}),
            **({("features", "cdi"): self.cdi} if self.cdi is not None else {}),
            ("runtimes", self.name): {"args": [], "path": self.path},
        }


@dataclasses.dataclass(frozen=True)
class Undone:
    """What is left when our settings are out.

    :ivar content: None when nothing remains of a file that did not exist before.
    :ivar kept: settings that somebody has changed since, and that therefore stay.
    """

    content: bytes | None
    kept: list[str]


def parse(content: bytes | None) -> dict[str, t.Any]:
    """The document, strictly.

    :raises TenancyError: for everything dockerd would refuse or silently misread.
    """
    return _parse(_text(content))


def edit(content: bytes | None, wanted: Wanted) -> bytes:
    """The file's content with these settings; the same bytes when it has them already."""
    text = _text(content)
    document = _parse(text)
    for path, value in wanted.settings().items():
        found = _lookup(document, path)
        # A runtime without "args" has none.
        if found != value and not (isinstance(found, dict) and {"args": []} | found == value):
            text = _set(text, path, value)
    _parse(text)
    return text.encode()


def undo(present: bytes, left: bytes, original: bytes | None) -> Undone:
    """Take out of ``present``, which somebody edited, what made ``left`` out of ``original``.

    A setting that still is as we left it goes back to what it was; any other stays as it is now.
    """
    text, former = _text(present), _text(original)
    now, ours, before = _parse(text), _parse(_text(left)), _parse(former)
    kept = []
    for path in _differences(before, ours):
        if _lookup(now, path) != _lookup(ours, path):
            kept.append(".".join(path))
        elif _lookup(before, path) is None:
            # An object that only we needed goes too.
            text = _remove(text, path, parent_stays=len(path) == 1 or _lookup(before, path[:-1]) is not None)
        else:
            here, there = _find(text, path), _find(former, path)
            text = text[: here.value] + former[there.value : there.end] + text[here.end :]
    if original is None and not _parse(text):
        return Undone(None, kept)
    return Undone(text.encode(), kept)


def _text(content: bytes | None) -> str:
    if content is None:
        return "{}"
    if content.startswith(b"\xef\xbb\xbf"):
        raise TenancyError("daemon.json starts with a byte-order mark, which dockerd refuses: remove it.")
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        raise TenancyError(f"daemon.json is not UTF-8: {exc}") from exc


def _parse(text: str) -> dict[str, t.Any]:
    def pairs(items: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
        keys = [key for key, _value in items]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise TenancyError(f"daemon.json names a key twice: {', '.join(twice)}. Keep the one that is meant.")
        return dict(items)

    def constant(name: str) -> t.Any:
        raise TenancyError(f"daemon.json is not valid JSON: {name} is no value.")

    try:
        # Numbers stay the text they are: Python must not round them, nor choke on long ones.
        document = json.loads(text, object_pairs_hook=pairs, parse_int=str, parse_float=str, parse_constant=constant)
    except json.JSONDecodeError as exc:
        raise TenancyError(f"daemon.json is not valid JSON: {exc}") from exc
    except RecursionError as exc:
        raise TenancyError("daemon.json is nested too deeply.") from exc
    if not isinstance(document, dict):
        raise TenancyError("daemon.json has to be a JSON object.")
    _check(document)
    return document


def _check(document: dict[str, t.Any]) -> None:
    """The parts that we read have to be what dockerd makes of them."""
    for key in ("runtimes", "features"):
        if not isinstance(document.get(key, {}), dict):
            raise TenancyError(f"{key} in daemon.json has to be an object.")
    for key, value in document.get("runtimes", {}).items():
        if not isinstance(value, dict):
            raise TenancyError(f"runtimes.{key} in daemon.json has to be an object.")
    for key, value in document.get("features", {}).items():
        if not isinstance(value, bool):
            raise TenancyError(f"features.{key} in daemon.json has to be true or false.")
    if not isinstance(document.get("default-runtime", ""), str) or document.get("default-runtime") == "":
        raise TenancyError("default-runtime in daemon.json has to be a runtime's name.")


def _lookup(document: t.Any, path: Path) -> t.Any:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return None
        document = document[key]
    return document


def _differences(before: dict[str, t.Any], after: dict[str, t.Any]) -> list[Path]:
    paths: list[Path] = [("default-runtime",)]
    paths += [(key, name) for key in ("features", "runtimes") for name in after.get(key, {})]
    return [path for path in paths if _lookup(before, path) != _lookup(after, path)]


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
