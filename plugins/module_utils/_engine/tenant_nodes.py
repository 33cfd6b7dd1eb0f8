# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Give nodes to tenants, or take them back."""

from __future__ import annotations

import typing as t

from .._assignment.lifecycle import Assignment, give_nodes
from .._assignment.plan import plain
from .._common.run import Result, Run
from .._desired.tenants import tenants_from

ARGUMENT_SPEC: dict[str, t.Any] = {
    "tenants": {"type": "list", "elements": "dict"},
    "only": {"type": "list", "elements": "str", "default": []},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
}


def reconcile(run: Run) -> Result:
    """Decide which nodes each tenant gets, and label and taint them."""
    if run.params["state"] == "absent":
        named = run.params["tenants"]
        nodes = [plain(node) for node in run.kube.list("v1", "Node")]
        Assignment(run, {}, None if named is None else {tenant["name"] for tenant in named}).write(nodes)
        return run.result()
    return run.result(assignments=give_nodes(run, tenants_from(run.params["tenants"]), run.params["only"]))
