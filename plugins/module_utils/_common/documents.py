# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""YAML and JSON that others wrote, within a size and a depth.

YAML is read by the parser in C where PyYAML has it, which takes an eighth of the time. That parser has no bound of its own: a document that
is nested 100,000 deep ends the whole process (SIGSEGV). So the depth is looked at first. The parser of JSON raises RecursionError.
"""

from __future__ import annotations

import functools
import json
import math
import re
import typing as t

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass

# Characters of a document, and how deep its collections are nested. The largest that Kubernetes keeps is 3 MiB (etcd takes 1.5 MiB at a time),
# and a CRD's schema, the deepest document of Kubernetes' own, is nested about 40 deep.
LARGEST = 8 * 2**20
DEEPEST = 100
# Aliases of one YAML document, and the nodes that all of them stand for: aliases of aliases, and merges of them, double with each level.
_MOST_ALIASES, _MOST_ALIASED = 100, 100_000
_FEW = 20
# Characters of a number: one of base 60 takes quadratic time, and a larger one is no text again (sys.set_int_max_str_digits).
_LONGEST_NUMBER = 100

# Where a YAML document may be nested deep at all: many columns of indentation and indicators of collections, which stand at the beginning of a
# line. YAML has other line breaks than Python's, so they are looked for anywhere.
_PREFIX = re.compile(r"[ \t?:-]{41}")

# Plain values that are no texts (resolve.go of go.yaml.in/yaml/v2, on which sigs.k8s.io/yaml is built), by their kind.
_PLAIN = {
    "bool": "y|Y|[yY]es|YES|n|N|[nN]o|NO|[tT]rue|TRUE|[fF]alse|FALSE|[oO]n|ON|[oO]ff|OFF",
    "null": "~|[nN]ull|NULL|",
    "merge": "<<",
    "int": "[-+]?(?:0b_*[01][01_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0o?_*[0-7][0-7_]*|[1-9][0-9_]*|0_*)",
    "float": r"[-+]?(?:\.[0-9][0-9_]*|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?",
}
_KINDS = ("bool", "map", "null", "seq", "str")
_TAG = "tag:yaml.org,2002:"
_NO_TEXTS = tuple(f"{_TAG}{kind}" for kind in ("bool", "float", "int", "null"))


class Unreadable(ValueError):
    """A document that is too large, too deep, or none."""


def parse_json(text: str | bytes, largest: int = LARGEST) -> t.Any:
    """Return what a JSON text holds. Its numbers are finite: NaN and Infinity are no JSON.

    :arg largest: characters, or bytes, at most.
    :raises Unreadable: a ValueError, where it is no JSON, too large or too deep.
    """
    if len(text) > largest:
        raise Unreadable(f"it has {len(text)} characters, and {largest} are read at most")
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except Unreadable:
        raise
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"it is no JSON: {exc}") from exc


def load_documents(text: str | bytes, largest: int = LARGEST) -> list[t.Any]:
    """Return all documents in a YAML text, as plain data.

    :arg largest: characters, or bytes, at most.
    :raises Unreadable: a ValueError, where it is no YAML, too large or too deep.
    """
    # As safe as yaml.safe_load_all, whether or not PyYAML has its parser in C.
    return _load(text, _bounded(getattr(yaml, "CSafeLoader", yaml.SafeLoader)), largest)


def load_manifests(text: str, largest: int = LARGEST) -> list[t.Any]:
    """Return all documents in a YAML text as Kubernetes' programs read them, by sigs.k8s.io/yaml: data of JSON.

    Unlike PyYAML, they take ``=``, 1:30 and 2026-11-25 for texts, 1e3 and 0o17 for numbers, y and n for booleans, and keys for texts.

    :arg largest: characters at most.
    :raises Unreadable: as ``load_documents`` does.
    """
    return _load(text, _bounded(_of_kubernetes(getattr(yaml, "CSafeLoader", yaml.SafeLoader))), largest)


def _load(text: str | bytes, loader: t.Any, largest: int) -> list[t.Any]:
    if len(text) > largest:
        raise Unreadable(f"it has {len(text)} characters, and {largest} are read at most")
    try:
        plain = text.decode() if isinstance(text, bytes) else text
        if _may_be_deep(plain) and _yaml_depth(plain, loader) > DEEPEST:
            raise Unreadable(f"it is nested more than {DEEPEST} deep")
        return list(yaml.load_all(plain, Loader=loader))
    except Unreadable:
        raise
    # The library's own errors, and Python's: a date such as 2026-99-99, a key that is a mapping, an integer of an empty text.
    except Exception as exc:
        raise Unreadable(f"it is no YAML: {exc}") from exc


@functools.cache
def _bounded(base: t.Any) -> t.Any:
    """Return a class of PyYAML's loaders whose numbers have a bounded length.

    :arg base: the class that is bounded.
    """
    loader: t.Any = type("BoundedLoader", (base,), {})

    def bounded(construct: t.Callable[[t.Any, t.Any], t.Any]) -> t.Callable[[t.Any, t.Any], t.Any]:
        def read(made: t.Any, node: t.Any) -> t.Any:
            if len(str(node.value)) > _LONGEST_NUMBER:
                raise Unreadable(f"it has a number of more than {_LONGEST_NUMBER} characters")
            return construct(made, node)

        return read

    for kind in ("int", "float"):
        loader.add_constructor(f"{_TAG}{kind}", bounded(getattr(base, f"construct_yaml_{kind}")))
    return loader


@functools.cache
def _of_kubernetes(base: t.Any) -> t.Any:
    """Return a class of PyYAML's loaders that reads plain values as sigs.k8s.io/yaml does, and makes data of JSON alone.

    :arg base: the class whose parser it has.
    """

    def as_text(made: t.Any, node: t.Any) -> t.Any:
        if node.tag not in _NO_TEXTS:
            return node
        return yaml.ScalarNode(f"{_TAG}str", json.dumps(made.construct_object(node)), node.start_mark, node.end_mark)

    def construct_mapping(made: t.Any, node: t.Any, deep: bool = False) -> t.Any:
        # Before there is a mapping: in one of Python, the keys 1 and true are the same.
        made.flatten_mapping(node)
        node.value = [(as_text(made, key), value) for key, value in node.value]
        return base.construct_mapping(made, node, deep)

    def construct_float(made: t.Any, node: t.Any) -> float:
        value = _finite(made.construct_scalar(node).replace("_", ""))
        return math.floor(value) if value.is_integer() else value

    loader: t.Any = type(
        "ManifestLoader",
        (base,),
        {
            "bool_values": base.bool_values | {"y": True, "n": False},
            "construct_mapping": construct_mapping,
            "construct_yaml_float": construct_float,
            # What has another tag is no data of JSON.
            "yaml_constructors": {f"{_TAG}{kind}": base.yaml_constructors[f"{_TAG}{kind}"] for kind in _KINDS}
            | {f"{_TAG}{kind}": base.construct_yaml_str for kind in ("timestamp", "merge")}
            | {None: base.construct_undefined},
            "yaml_implicit_resolvers": {},
        },
    )
    for kind, pattern in _PLAIN.items():
        loader.add_implicit_resolver(f"{_TAG}{kind}", re.compile(rf"(?:{pattern})\Z"), None)
    return loader


def load_document(text: str | bytes, largest: int = LARGEST) -> t.Any:
    """Return the first document in a YAML text; None where there is none.

    :raises Unreadable: as ``load_documents`` does.
    """
    return next(iter(load_documents(text, largest)), None)


def depth(value: t.Any, deepest: int = DEEPEST) -> int:
    """Return how deep dictionaries and lists are nested in a value, at most ``deepest`` + 1: a value may hold itself."""
    level, here = 0, [value]
    while here and level <= deepest:
        below = (
            item
            for one in here
            if isinstance(one, (dict, list, tuple))
            for item in (one.values() if isinstance(one, dict) else one)
        )
        # What stands there twice is looked at once: [a, a] would double with each level.
        here = list({id(item): item for item in below if isinstance(item, (dict, list, tuple))}.values())
        level += 1
    return level if isinstance(value, (dict, list, tuple)) else 0


def _may_be_deep(text: str) -> bool:
    """Tell whether a YAML text may be nested deep, or has aliases: what its events tell for certain costs as much as to read it."""
    opened = text.count("[") + text.count("{") - text.count("[]") - text.count("{}")
    return "&" in text or opened > _FEW or bool(_PREFIX.search(text))


def _yaml_depth(text: str, loader: t.Any) -> int:
    """Return how deep a YAML text is nested, by its events, for which no parser recurses.

    :raises Unreadable: where its aliases stand for too much, or a collection holds itself.
    """
    deepest = aliases = aliased = 0
    # Of each collection that is not at its end, its anchor or None, and how many nodes it has so far; below all of them, the document.
    opened: list[tuple[str | None, int]] = [(None, 0)]
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=loader):
        size = 0
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            opened.append((event.anchor, 1))
            deepest = max(deepest, len(opened) - 1)
            if deepest > DEEPEST:
                break
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            anchor, size = opened.pop()
            if anchor:
                sizes[anchor] = size
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
        elif isinstance(event, yaml.AliasEvent):
            if any(event.anchor == anchor for anchor, _size in opened):
                raise Unreadable("a collection in it holds itself")
            aliases += 1
            size = sizes.get(str(event.anchor), 1)
            aliased += size
            if aliases > _MOST_ALIASES or aliased > _MOST_ALIASED:
                raise Unreadable(f"it has more than {_MOST_ALIASES} aliases, or they stand for more than {_MOST_ALIASED} nodes")
        opened[-1] = (opened[-1][0], opened[-1][1] + size)
    return deepest


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unreadable(f"{text[:40]} is larger than any number of JSON that can be kept")
    return value


def _no_number(name: str) -> t.NoReturn:
    raise Unreadable(f"{name} is no number of JSON")
