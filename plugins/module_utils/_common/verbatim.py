# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""YAML files that others share: what is read of them is written as it was, but for comments and layout.

YAML 1.1, which Python reads, takes a plain 12:34:56 for the number 45296 and ``on`` for true; other programs take them for texts. So a value
stays the text that it is in the file, and is written as it was, with or without quotes. Aliases and merge keys (<<) become copies of what they
stand for.
"""

from __future__ import annotations

import typing as t

from .documents import DEEPEST, LARGEST, Unreadable

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

# Values and collections in a document; what an alias stands for counts again each time.
MOST_VALUES = 100_000

_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_COLLECTIONS = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


class Scalar(str):
    """A value as its text in the file, regardless of its type.

    :ivar tag: its type, as YAML 1.1 understands it.
    :ivar style: its quotes, or how its lines are written; None for a plain text.
    """

    tag: str
    style: str | None


class _Done(t.NamedTuple):
    """Something that was read.

    :ivar size: how many values and collections it holds, itself included.
    :ivar depth: how deep it is nested; 0 for a value.
    """

    value: t.Any
    size: int = 1
    depth: int = 0


class _Open:
    """A collection whose end was not read yet.

    :ivar anchor: by which aliases name it; None for none.
    :ivar key: whose value is read next, in a dictionary.
    :ivar merged: what its merge keys bring, which its own keys go before.
    """

    def __init__(self, value: dict[str, t.Any] | list[t.Any], anchor: str | None = None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: Scalar | None = None
        self.merged: dict[str, t.Any] = {}
        self.size = self.depth = 1

    @property
    def awaits_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None

    def add(self, done: _Done) -> None:
        item = done.value
        self.size, self.depth = self.size + done.size, max(self.depth, done.depth + 1)
        if self.size > MOST_VALUES:
            raise Unreadable(f"it has more than {MOST_VALUES} values")
        if isinstance(self.value, list):
            self.value.append(item)
        elif self.key is None:
            self._add_key(item)
        else:
            if self.key.tag == _MERGE:
                self._merge(item)
            else:
                self.value[self.key] = item
            self.key = None

    def _add_key(self, item: t.Any) -> None:
        if not isinstance(item, Scalar):
            raise Unreadable("one of its keys is no text")
        if item in self.value:
            raise Unreadable("it has a key twice")
        self.key = item

    def _merge(self, item: t.Any) -> None:
        for one in item if isinstance(item, list) else [item]:
            if not isinstance(one, dict):
                raise Unreadable("one of its merge keys holds no dictionary")
            self.merged = one | self.merged

    def closed(self) -> _Done:
        if isinstance(self.value, dict):
            for key, item in self.merged.items():
                self.value.setdefault(key, item)
        return _Done(self.value, self.size, self.depth)


def load(text: str | bytes) -> t.Any:
    """Return the only document in a YAML text as dictionaries, lists, ``Scalar`` and None; None, too, where there is none.

    :raises Unreadable: a ValueError, where it is no YAML, too large, too deep, or more than one document; without a part of the text.
    """
    if len(text) > LARGEST:
        raise Unreadable(f"it has {len(text)} characters, and {LARGEST} are read at most")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # By its events, for which no parser recurses.
        return _read(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as exc:
        # The error's own text quotes the line, which may be a key.
        mark = getattr(exc, "problem_mark", None)
        raise Unreadable(f"it is no YAML{f' from line {mark.line + 1} on' if mark else ''}") from exc


def _read(events: t.Iterable[t.Any]) -> t.Any:
    """Return what the events of a document hold.

    :raises Unreadable: as ``load`` does.
    """
    documents: list[t.Any] = []
    way = [_Open(documents)]
    resolver = yaml.resolver.Resolver()
    known: dict[str | None, _Done] = {}
    for event in events:
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if event.tag not in _COLLECTIONS:
                raise Unreadable("it has a collection of another type than YAML's own")
            way.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))
            _check_depth(len(way) - 1)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            ended = way.pop()
            known[ended.anchor] = ended.closed()
            way[-1].add(known[ended.anchor])
        elif isinstance(event, yaml.AliasEvent):
            # What is not known here holds itself.
            if event.anchor not in known:
                raise Unreadable("it has an alias of what does not stand before it")
            _check_depth(len(way) - 1 + known[event.anchor].depth)
            way[-1].add(known[event.anchor])
        elif isinstance(event, yaml.ScalarEvent):
            known[event.anchor] = _Done(_scalar(event, way[-1].awaits_key, resolver))
            way[-1].add(known[event.anchor])
    if len(documents) > 1:
        raise Unreadable("it has more than one document")
    return documents[0] if documents else None


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise Unreadable(f"it is nested more than {DEEPEST} deep")


def _scalar(event: t.Any, is_key: bool, resolver: t.Any) -> Scalar | None:
    tag = event.tag
    if tag in (None, "!"):
        tag = resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
    if tag == _NULL and not is_key:
        return None
    scalar = Scalar(event.value)
    scalar.tag, scalar.style = tag, event.style
    return scalar


def dump(value: t.Any) -> str:
    """Return the YAML text of what ``load`` returned, changed or not, without aliases."""

    base: t.Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):
        def ignore_aliases(self, data: t.Any) -> bool:
            return True

    Dumper.add_representer(Scalar, lambda _dumper, scalar: yaml.ScalarNode(scalar.tag, str(scalar), style=scalar.style))
    return yaml.dump(value, Dumper=Dumper, sort_keys=False)
