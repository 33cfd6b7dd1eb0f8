# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Give nodes to tenants: read what tenants on them may take, and write labels and taints."""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import ApiError, Problem, Refused
from .._common.names import CONFIG_SECRET
from .._common.ownership import last_write
from .._common.run import Run
from .._common.values import JsonObject, Write
from .._desired.model import Tenant
from .._nodes.dra import list_nodes
from .._nodes.status import owners
from .._nodes.validation import Claim
from .._vcluster.inventory import configs
from .._vcluster.values import claim
from .plan import assign, by_node, obstacles, ownership, plain, relabel, retaint, without

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube


# How often a node is written that others change at the same time, and the seconds between, times the attempt.
ATTEMPTS, PAUSE = 10, 0.1


def live_claims(kube: Kube, nodes: list[JsonObject], tenants: t.Sequence[Tenant]) -> dict[str, Claim]:
    """Read what tenants may take of the nodes they are on that are not listed, or listed as absent, from their virtual clusters.

    :arg nodes: all of the host cluster's, as plan.plain returns them.
    :arg tenants: the listed ones.
    :returns: by name; tenants without a virtual cluster are left out.
    """
    staying = {tenant.name for tenant in tenants if tenant.state != "absent"}
    names = {owner for node in nodes for owner in owners(node["labels"])} - staying
    if not names:
        return {}
    found = configs(kube)
    live = {name.partition("/")[2]: claim(name.partition("/")[2], config) for name, config in found.read.items()}
    # One whose configuration cannot be read may take all of them.
    unread = {one.what.rpartition("/")[2].removeprefix(CONFIG_SECRET) for one in found.unread}
    return {name: live.get(name) or Claim(name, own_scheduler=True) for name in names if name in live or name in unread}


def give_nodes(run: Run, tenants: t.Sequence[Tenant], only: t.Collection[str]) -> dict[str, list[str]]:
    """Decide which nodes each tenant gets, and label and taint them.

    :arg only: names of the tenants whose nodes may change; everybody's when empty.
    :returns: names of nodes by tenant.
    :raises TenancyError: for everything that is wrong with the tenants, or with what they ask of the nodes.
    """
    nodes = [plain(node) for node in list_nodes(run.kube)]
    live = live_claims(run.kube, nodes, tenants)
    acted_on = {tenant.name for tenant in tenants if not only or tenant.name in only}
    absent = {tenant.name for tenant in tenants if tenant.state == "absent"}
    # One that could not be removed keeps its nodes, because its pods run there. Check mode predicts that it is removed.
    gone = {name for name in absent & acted_on if run.check_mode or name not in live}
    assigned = assign(tenants, [without(node, gone) for node in nodes], live)
    dedicated = {tenant.name for tenant in tenants if tenant.trust == "zero"}
    acted_on -= absent - gone
    given = {name: theirs for name, theirs in assigned.items() if name in acted_on}
    for warning in obstacles(nodes, given):
        run.warn(warning)
    Assignment(run, given, acted_on, dedicated).write(nodes)
    return assigned


def nodes_to_give(kube: Kube, tenants: t.Sequence[Tenant], only: t.Collection[str]) -> tuple[bool, list[Problem]]:
    """Tell whether ``give_nodes`` would change something or refuse to, and for what reasons it would refuse."""
    preview = Run({}, True, kube)
    try:
        give_nodes(preview, tenants, only)
    except Refused as exc:
        # What the API server did not answer is no problem with what is asked.
        return True, exc.problems
    return bool(preview.changes), []


class Assignment:
    """The labels and taints by which nodes belong to tenants.

    :arg assigned: names of nodes by tenant.
    :arg names: of the tenants whose labels and taints may change; None for everybody's.
    :arg dedicated: names of the tenants whose nodes are tainted.
    """

    def __init__(
        self, run: Run, assigned: dict[str, list[str]], names: t.Container[str] | None, dedicated: t.Container[str] = ()
    ) -> None:
        self.run = run
        self.whose = by_node(assigned)
        self.names = names
        self.dedicated = dedicated

    def write(self, nodes: list[JsonObject]) -> None:
        """Bring nodes to what is assigned.

        :arg nodes: as plan.plain returns them.
        :raises TenancyError: for a node that is given to another tenant, removed, or changed again and again meanwhile.
        """
        for node in nodes:
            after = self._after(node)
            if after is None:
                continue
            self.run.perform(*_step(node, after), functools.partial(self._give, node, after))
            self.run.change(node["name"], ownership(node), ownership(after), _last_write(node, after))

    def _after(self, node: JsonObject) -> JsonObject | None:
        """Return a node as it is to be, with None for each label that is to go; None where nothing changes."""
        whose = self.whose.get(node["name"], [])
        labels, taints = relabel(node, whose, self.names), retaint(node, whose, self.names, self.dedicated)
        if not labels and taints is None:
            return None
        return node | {"labels": node["labels"] | labels, "taints": node["taints"] if taints is None else taints}

    def _give(self, node: JsonObject, after: JsonObject) -> None:
        """Write a node; ``after`` is then as it was written, which differs where another client changed the node meanwhile."""
        if not self._patched(node, after):
            after |= self._patched_again(node)

    def _patched(self, before: JsonObject, after: JsonObject) -> bool:
        """Write what differs, for the node as it was read only; False where it is another one by now."""
        labels = {key: value for key, value in after["labels"].items() if value != before["labels"].get(key, "")}
        body: JsonObject = {"metadata": {"resourceVersion": before["version"], "labels": labels}}
        if after["taints"] != before["taints"]:
            # A patch replaces the whole list.
            body["spec"] = {"taints": after["taints"]}
        try:
            self.run.kube.patch("v1", "Node", before["name"], body)
        except ApiError as exc:
            if exc.status == 409:
                return False
            raise
        return True

    def _patched_again(self, node: JsonObject) -> JsonObject:
        """Read a node that another client changed, write it again, and return it as it is then.

        Several tenants that are removed side by side each take their label off the same node.
        """
        for attempt in range(1, ATTEMPTS):
            live = self._read_again(node)
            after = self._after(live)
            if after is None:
                return live
            _refuse_what_others_got(node, live, after)
            if self._patched(live, after):
                return after
            self.run.deadline.sleep(PAUSE * attempt)
        raise ApiError(
            f"node {node['name']}: another client changed it {ATTEMPTS} times while its tenants were written to it. Run this again when "
            "nothing else changes its labels or taints.",
            status=409,
        )

    def _read_again(self, node: JsonObject) -> JsonObject:
        found = self.run.kube.get("v1", "Node", node["name"])
        if found is None:
            raise ApiError(f"node {node['name']}: it was removed from the cluster meanwhile. Run this again.", status=404)
        return plain(found)


def _last_write(before: JsonObject, after: JsonObject) -> Write | None:
    """Return the last write of the labels and taints of a node that change."""
    labels = [("metadata", "labels", key) for key, value in after["labels"].items() if value != before["labels"].get(key)]
    return last_write(before, *labels, *([("spec", "taints")] if after["taints"] != before["taints"] else []))


def _step(before: JsonObject, after: JsonObject) -> tuple[str, str]:
    """Return what is done to a node, and why."""
    verbs = [verb for verb, what in (("label", "labels"), ("taint", "taints")) if after[what] != before[what]]
    return (
        f"{' and '.join(verbs)} node {before['name']}",
        f"it is to belong to {' and '.join(owners(after['labels'])) or 'no tenant'}",
    )


def _refuse_what_others_got(node: JsonObject, live: JsonObject, after: JsonObject) -> None:
    """Refuse to give a node to a tenant when another run gave it to others since it was read."""
    gets = set(owners(after["labels"])) - set(owners(live["labels"]))
    others = sorted(set(owners(live["labels"])) - set(owners(node["labels"])))
    if gets and others:
        raise ApiError(
            f"node {node['name']}: another run gave it to {', '.join(others)} meanwhile. Run this again: nodes are then assigned "
            "anew.",
            status=409,
        )
