# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Variables of the roles that site runs, and names in an inventory that are nearly one of them."""

from __future__ import annotations

import difflib
import pathlib
import typing as t

from ..module_utils._common.documents import load_document
from ..module_utils._common.errors import Problem

ROLES = pathlib.Path(__file__).parents[2] / "roles"
# All variables of a role begin with its name.
PREFIXES = ("device_plugin_", "docker_nvidia_runtime_", "gateway_", "kai_scheduler_", "nvkind_", "vcluster_tenant_")
# How much of a name has to be the same, from 0 to 1. Users may have variables of their own that begin so.
_CLOSE = 0.8


def misspelled(names: t.Iterable[str]) -> t.Iterator[Problem]:
    """Yield a problem for each variable that no role has, and whose name is close to one that a role has.

    :arg names: of an inventory host's variables.
    """
    for prefix in PREFIXES:
        given = {name for name in names if name.lower().startswith(prefix)}
        known = variables_of(prefix.removesuffix("_")) if given else frozenset()
        rests = [name.removeprefix(prefix) for name in known]
        for name in sorted(given - known):
            if close := difflib.get_close_matches(name.lower().removeprefix(prefix), rests, n=1, cutoff=_CLOSE):
                yield Problem("unknown-variable", f"{name}: no role has this variable. Did you mean {prefix}{close[0]}?")


def variables_of(role: str) -> frozenset[str]:
    """Return the names of a role's options, of all its entry points, and of its defaults."""
    specs = load_document((ROLES / role / "meta/argument_specs.yml").read_bytes())["argument_specs"]
    defaults = load_document((ROLES / role / "defaults/main.yml").read_bytes())
    return frozenset(defaults).union(*(entry.get("options", {}) for entry in specs.values()))
