# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Trees of values, the changes that modules report, and moments as the Kubernetes API writes them."""

from __future__ import annotations

import datetime
import typing as t

# What JSON or YAML has of an object, such as one of Kubernetes' API.
JsonObject = dict[str, t.Any]
Values = dict[str, t.Any]

# Namespace and name of an object of Kubernetes' API.
Key = tuple[str, str]

# What changes, from what, to what; None stands for absent.
Change = tuple[str, t.Any, t.Any]


def key_of(item: JsonObject) -> Key:
    """Return the namespace and name of an object; the namespace is empty where it has none."""
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def key_name(item: JsonObject) -> str:
    """Return an object's name for messages, such as ``default/web-0``."""
    return "/".join(filter(None, key_of(item)))


def value_at(values: t.Any, path: str) -> t.Any:
    """Return what stands at a path such as ``sync.fromHost.nodes``; None where nothing does."""
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def utc_now() -> datetime.datetime:
    """Return this moment, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc)


def moment(text: str) -> datetime.datetime:
    """Return the moment that a timestamp of the API names, such as ``2026-11-21T12:00:00Z``."""
    # Python reads the Z only from 3.11 on.
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def stamp(at: datetime.datetime) -> str:
    """Return a moment in UTC as the API writes it, to the second; ``strftime`` leaves out the zeros of years before 1000."""
    return at.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def stamped(text: str) -> datetime.datetime:
    """Return the moment that ``stamp`` wrote.

    :raises ValueError: for a text of another form.
    """
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)


class Write(t.NamedTuple):
    """The last write of something: when, in UTC, and by whom, as far as that is noted."""

    since: str
    by: str


def deep_merge(base: Values, over: Values) -> Values:
    """Return ``base`` with ``over`` laid on it: mappings merge, everything else replaces."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = deep_merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def differences(before: Values, after: Values, path: str = "values") -> list[Change]:
    """Return what changes, leaf by leaf; ``path`` names the tree in front of the keys."""
    changes: list[Change] = []
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            changes += differences(old, new, f"{path}.{key}")
        elif old != new or (key in before) != (key in after):
            changes.append((f"{path}.{key}", old, new))
    return changes


def merge_patch(before: Values, after: Values) -> Values:
    """Return the JSON merge patch (RFC 7386) that turns ``before`` into ``after``, which holds no None."""
    gone: Values = {key: None for key in before if key not in after}
    return gone | {
        key: merge_patch(before[key], value) if isinstance(before.get(key), dict) and isinstance(value, dict) else value
        for key, value in after.items()
        if key not in before or before[key] != value
    }
