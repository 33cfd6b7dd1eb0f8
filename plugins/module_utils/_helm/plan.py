# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a chart's object becomes where its manifest is compared with the live one: the object as it has to be, and a list of changes."""

from __future__ import annotations

import typing as t

from .._common.values import Change, JsonObject
from .values import comparable

# The merge keys of Kubernetes (patchMergeKey and listMapKey of k8s.io/api), and the name of a StatefulSet's claims. Lists of mappings that
# have none, such as a Role's rules or the terms of an affinity, are one value.
_KEYS = (
    ("mountPath",),
    ("devicePath",),
    ("containerPort", "protocol"),
    ("port", "protocol"),
    ("topologyKey", "whenUnsatisfiable"),
    ("ip",),
    ("name",),
    ("metadata",),
)
# Objects in which each key that is added allows or forbids something.
_WHOLE_KINDS = ("NetworkPolicy", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
_SELECTORS = ("labelSelector", "matchLabels", "namespaceSelector", "objectSelector", "podSelector", "selector")
# Items of lists of which a second source is refused, or hides the first one.
_UNIONS = ("env[]", "volumes[]")
# Mappings whose keys have no meaning to Kubernetes: what others add stays, also where a chart has none.
_FREE = ("annotations", "binaryData", "data", "labels", "metadata", "stringData")


def as_wanted(item: JsonObject, live: JsonObject, exact: bool = False) -> JsonObject:
    """Return what of a live object is compared, with what the manifest says in place of what stands there.

    What the manifest leaves out stays as it is: defaults, and what others wrote. It goes from policies, roles, bindings, selectors and lists
    without a merge key, for which the API server fills in the defaults.

    :arg item: the object of the manifest.
    :arg exact: whether each mapping with another value loses what the manifest leaves out of it, such as what belonged to another type.
    """
    wanted, now = comparable(item), comparable(live)
    if item["kind"] not in _WHOLE_KINDS:
        return t.cast("JsonObject", _merged(wanted, now, exact=exact)) if wanted else now
    # A controller writes the rules of a role that collects those of others.
    apart = ("metadata", "rules") if wanted.get("aggregationRule") else ("metadata",)
    said, stands = ({key: value for key, value in one.items() if key not in apart} for one in (wanted, now))
    kept = {key: now[key] for key in apart if key in now}
    return t.cast("JsonObject", _merged({"metadata": wanted.get("metadata")}, kept) | _whole(said, stands))


def _open(wanted: t.Any, live: t.Any, key: str) -> bool:
    """Tell whether a manifest leaves a value open: by null, or by nothing where nothing stands."""
    return wanted is None or (wanted in ({}, []) and (not live or key in _FREE))


def _merged(wanted: t.Any, live: t.Any, key: str = "", exact: bool = False) -> t.Any:
    if _open(wanted, live, key):
        return live
    if key in _SELECTORS:
        return _whole(wanted, live)
    if wanted and isinstance(wanted, dict) and isinstance(live, dict):
        exact = exact and key not in _FREE
        alone = key in _UNIONS or (exact and key and any(_differs(value, live.get(name)) for name, value in wanted.items()))
        below = {
            name: _merged(value, live[name], name, exact) if name in live else _whole(value, None)
            for name, value in wanted.items()
            if name in live or not _open(value, None, name) or (alone and value == {})
        }
        return (_empty(live) if alone else live) | below
    pairs = _pairs(wanted, live) if isinstance(wanted, list) and isinstance(live, list) else None
    if pairs is None:
        return _whole(wanted, live)
    return [_merged(mine, other, f"{key}[]", exact) for _name, mine, other in pairs if mine is not None]


def _empty(live: JsonObject) -> JsonObject:
    return {key: value for key, value in live.items() if value in (None, [])}


def _differs(wanted: t.Any, live: t.Any) -> bool:
    return wanted != live and wanted is not None and (live is None or not isinstance(wanted, (dict, list)))


def _whole(wanted: t.Any, live: t.Any) -> t.Any:
    """Return a value of a manifest; an empty list, null and no value are the same, and are spelled as they stand there."""
    if isinstance(wanted, dict):
        found = live if isinstance(live, dict) else {}
        said = {
            key: value for key, value in wanted.items() if value is not None and (value != [] or found.get(key) or live is None)
        }
        return _empty(found) | {key: _whole(value, found.get(key)) for key, value in said.items()}
    if isinstance(wanted, list):
        others: list[t.Any] = live if isinstance(live, list) and len(live) == len(wanted) else [None] * len(wanted)
        return [_whole(*pair) for pair in zip(wanted, others)]
    return wanted


def changes_between(before: t.Any, after: t.Any, path: str = "") -> t.Iterator[Change]:
    """Yield each path at which two objects differ, such as ``spec.containers[main].image``, with both values."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from changes_between(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
        return
    pairs = _pairs(before, after) if isinstance(before, list) and isinstance(after, list) else None
    if pairs is None:
        yield path, before, after
        return
    for name, old, new in pairs:
        yield from changes_between(old, new, f"{path}[{name}]")


def _pairs(one: list[t.Any], other: list[t.Any]) -> list[tuple[str, t.Any, t.Any]] | None:
    """Return which items of two lists are the same, with their name; None in place of one that a list does not have.

    :returns: None where the lists can only be compared as a whole.
    """
    if not all(isinstance(item, dict) for item in (*one, *other)):
        return None
    keyed = False
    for keys in _KEYS:
        names = [[_name(item, keys) for item in items] for items in (one, other)]
        if any(name is None for name in (*names[0], *names[1])):
            continue
        keyed = True
        if all(len(set(side)) == len(side) for side in names):
            mine, others = (dict(zip(side, items)) for side, items in zip(names, (one, other)))
            return [(str(name), mine.get(name), others.get(name)) for name in {**mine, **others}]
    # An index stands for a name that two items share.
    return [(str(at), *pair) for at, pair in enumerate(zip(one, other))] if keyed and len(one) == len(other) else None


def _name(item: JsonObject, keys: tuple[str, ...]) -> str | None:
    values = [item.get(key, "TCP" if key == "protocol" else None) for key in keys]
    if keys == ("metadata",) and isinstance(values[0], dict):
        values = [values[0].get("name")]
    return "/".join(map(str, values)) if all(isinstance(value, (str, int)) for value in values) else None
