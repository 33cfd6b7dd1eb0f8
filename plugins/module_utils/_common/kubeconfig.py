# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The parts of a kubeconfig: its named entries, and those of the context that counts. Pure."""

from __future__ import annotations

import typing as t

from .values import JsonObject

# Lists of named entries, and the key of each entry that holds its content.
ENTRIES = {"clusters": "cluster", "users": "user", "contexts": "context"}


def entry(config: JsonObject | None, kind: str, name: str) -> JsonObject:
    """Return the content of a named entry; empty where there is none."""
    contents = (item.get(ENTRIES[kind]) for item in (config or {}).get(kind) or [] if item["name"] == name)
    return next(contents, None) or {}


def chosen(config: JsonObject, context: str | None = None) -> tuple[JsonObject, JsonObject]:
    """Return the cluster and the user of a context, by default of the current one; empty where the kubeconfig has none."""
    names = entry(config, "contexts", context or t.cast(str, config.get("current-context")))
    return entry(config, "clusters", t.cast(str, names.get("cluster"))), entry(config, "users", t.cast(str, names.get("user")))


def program_of(user: JsonObject) -> JsonObject:
    """Return what a user says of the program that gives its credentials; empty where there is none."""
    program = user.get("exec")
    return program if isinstance(program, dict) else {}
