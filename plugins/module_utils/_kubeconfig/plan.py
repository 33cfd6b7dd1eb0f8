# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Kubeconfig files that others share: which entries are added, replaced and taken out, and what stays. Pure."""

from __future__ import annotations

import typing as t

from .._common import verbatim
from .._common.documents import Unreadable
from .._common.errors import TenancyError
from .._common.kubeconfig import ENTRIES, entry
from .._common.secrets import without_password
from .._common.text import shown
from .._common.values import JsonObject


def parse(content: bytes, path: str, context: str) -> JsonObject | None:
    """Return the kubeconfig in a file, or None when the file is empty; see ``read``.

    :raises TenancyError: for anything else than a kubeconfig, and for a context of this name that another client made.
    """
    config = read(content, path)
    if config is None:
        return None
    if config.get("kind") != "Config":
        raise TenancyError(f"{path} is no kubeconfig, and stays as it is.")
    # Those of this collection lead to a cluster and a user of the same name.
    existing = entry(config, "contexts", context)
    if existing and [existing.get("cluster"), existing.get("user")] != [context, context]:
        raise TenancyError(
            f"{path} has a context {context} already, which leads to the cluster {shown(existing.get('cluster'))}, and stays as it is. "
            "Give another context_name."
        )
    return config


def read(content: bytes, path: str) -> JsonObject | None:
    """Return what a file of the form of a kubeconfig holds, or None when it is empty. Its values are ``verbatim.Scalar``.

    :raises TenancyError: for a file of another form; without a part of it, which may be a key.
    """
    try:
        config = verbatim.load(content)
    except Unreadable as exc:
        raise TenancyError(f"{path} is no kubeconfig, and stays as it is: {exc}.") from exc
    if config is None:
        return None
    if not isinstance(config, dict) or not all(_well_formed(config, kind) for kind in ENTRIES):
        raise TenancyError(f"{path} is no kubeconfig, and stays as it is.")
    return config


def _well_formed(config: JsonObject, kind: str) -> bool:
    entries = config.get(kind) or []
    return isinstance(entries, list) and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) and isinstance(item.get(ENTRIES[kind]) or {}, dict)
        for item in entries
    )


def merge(existing: JsonObject | None, new: JsonObject, make_current: bool) -> JsonObject:
    """Return ``existing`` with the entries of ``new`` in place of those of their name; everything else stays.

    :arg new: with one cluster, user and context of one name.
    """
    if existing is None:
        return new
    context = new["current-context"]
    merged = dict(existing)
    for kind, key in ENTRIES.items():
        (added,) = new[kind]
        if kind == "contexts":
            # kubectl keeps the chosen namespace in the context.
            added = added | {key: entry(existing, kind, context) | added[key]}
        entries = existing.get(kind) or []
        place = next((place for place, item in enumerate(entries) if item["name"] == context), len(entries))
        # One in place of all of that name: clients refuse a name that is there twice.
        others = [item for item in entries[place:] if item["name"] != context]
        merged[kind] = [*entries[:place], added, *others]
    return merged | ({"current-context": context} if make_current else {})


def without(existing: JsonObject, context: str) -> JsonObject | None:
    """Return what is left without the entries of a name; None when that is nothing."""
    left = existing | {kind: [item for item in existing.get(kind) or [] if item["name"] != context] for kind in ENTRIES}
    if existing.get("current-context") == context:
        left["current-context"] = ""
    return left if any(value for key, value in left.items() if key not in ("apiVersion", "kind", "current-context")) else None


def holds(config: JsonObject | None, context: str) -> bool:
    """Tell whether any entry has this name."""
    return any(item["name"] == context for kind in ENTRIES for item in (config or {}).get(kind) or [])


def summary(config: JsonObject | None, context: str) -> JsonObject:
    """Return what a diff may show of a kubeconfig: no credentials."""
    cluster = entry(config, "clusters", context)

    def text(value: t.Any) -> str:
        # What is no text there may hold anything, credentials included.
        return shown(value) if isinstance(value, str) else ""

    values = {
        "context": context if holds(config, context) else None,
        "server": without_password(text(cluster.get("server"))),
        "proxy_url": without_password(text(cluster.get("proxy-url"))),
        "current_context": text((config or {}).get("current-context")),
    }
    return {key: value for key, value in values.items() if value}


def same_credentials(one: JsonObject | None, other: JsonObject | None, context: str) -> bool:
    """Tell whether two kubeconfigs trust and present the same keys under a name."""

    def keys(config: JsonObject | None) -> t.Any:
        return entry(config, "clusters", context).get("certificate-authority-data"), entry(config, "users", context)

    return bool(keys(one) == keys(other))
