# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge tenants by what lies on their host cluster: what they are, and whether there is anything to do for them.

A tenant needs no work while what was verified last still stands: the same was asked for, everything that the host cluster shows
of it is as it was then, and not too much time has passed. All of that is read for all tenants at once, by a few LISTs.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import annotations_of, labels_of
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.model import Tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import NODE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import owners
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.facts import CHANGE, TIME, VERIFY
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.status import is_paused, judge

Object = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Live:
    """What the host cluster shows of one tenant.

    :ivar namespace: None where it has none; ``workload``, its control plane's StatefulSet or Deployment, alike.
    :ivar pods: of its namespace, synced ones included.
    :ivar nodes: those labelled for it.
    :ivar secret: with its kubeconfig.
    :ivar record: ConfigMap of what was verified last.
    """

    namespace: Object | None = None
    workload: Object | None = None
    pods: tuple[Object, ...] = ()
    nodes: tuple[Object, ...] = ()
    secret: Object | None = None
    record: Object | None = None

    @property
    def state(self) -> str:
        """absent, paused, running, starting, crashing or removing."""
        if self.namespace is None:
            return "absent"
        if "deletionTimestamp" in self.namespace["metadata"]:
            return "removing"
        if self.workload is None:
            return "starting"
        if is_paused(self.workload):
            return "paused"
        verdict = judge(self.workload, control_plane(self))
        return "running" if verdict.ready else "crashing" if verdict.crashed else "starting"

    @property
    def results(self) -> list[Object]:
        """The checks that were recorded last."""
        return list(json.loads(self.record["data"]["results"])) if self.record else []


def control_plane(live: Live) -> list[Object]:
    name = live.workload["metadata"]["name"] if live.workload else None
    return [pod for pod in live.pods if labels_of(pod).get("app") == "vcluster" and labels_of(pod).get("release") == name]


def digest(data: t.Any) -> str:
    """Return a short digest of plain data, the same for the same content."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()[:16]


def fingerprint(live: Live) -> str:
    """Return a digest of everything on the host cluster that the verification of a tenant rests on.

    Its own pods come and go; those of its control plane and of a KAI Scheduler in it do not, unless something changed.
    """
    workload, namespace = live.workload or {}, live.namespace or {}
    metadata = workload.get("metadata", {})
    parts = [pod for pod in live.pods if labels_of(pod).get(vc.SYNCED_FROM_LABEL) == kai.NAMESPACE] + control_plane(live)
    return digest(
        [
            [metadata.get("uid"), metadata.get("generation")],
            sorted((pod["metadata"]["uid"], _restarts(pod)) for pod in parts),
            sorted(map(_shape, live.nodes)),
            {key: value for key, value in labels_of(namespace).items() if "kubegpu.tenancy/" in key},
            {key: value for key, value in annotations_of(namespace).items() if "kubegpu.tenancy/" in key},
            (live.secret or {}).get("data", {}).get("certificate-authority"),
        ]
    )


def _restarts(pod: Object) -> int:
    return sum(status.get("restartCount", 0) for status in pod.get("status", {}).get("containerStatuses") or [])


def _shape(node: Object) -> tuple[str, str, str, bool]:
    """Return what a node is to those who schedule on it."""
    status = node.get("status", {})
    info, allocatable = status.get("nodeInfo", {}), json.dumps(status.get("allocatable", {}), sort_keys=True)
    unschedulable = bool(node.get("spec", {}).get("unschedulable"))
    return node["metadata"]["name"], allocatable, str(info.get("bootID", "")), unschedulable


@dataclasses.dataclass(frozen=True)
class Due:
    """What there is to do for a tenant, each with its reason in ``reasons``."""

    work: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def due(tenant: Tenant, wanted: str, live: Live, has_kubeconfig: bool, max_age: int, now: datetime.datetime) -> Due:
    """Decide what there is to do for a tenant.

    :arg wanted: digest of everything that is wanted of it.
    :arg has_kubeconfig: whether its kubeconfig is in its place, and leads where its virtual cluster is.
    :arg max_age: seconds for which a verification stands while nothing changes.
    """
    if tenant.state == "absent":
        left = [what for what, there in (("its namespace", live.namespace), ("labels of nodes", live.nodes)) if there]
        left += ["its kubeconfig"] if has_kubeconfig else []
        return Due((CHANGE,), (f"{' and '.join(left)} are still there",)) if left else Due()
    if tenant.state == "paused":
        return Due() if live.state == "paused" else Due((CHANGE,), (f"it is {live.state}, not paused",))
    reasons = [f"it is {live.state}"] if live.state != "running" else []
    record = (live.record or {}).get("data", {})
    if live.state == "running":
        if not record:
            reasons.append("it was never verified")
        elif record["wanted"] != wanted:
            reasons.append("something else is wanted of it")
        elif record["fingerprint"] != fingerprint(live):
            reasons.append("its control plane, scheduler, nodes or namespace changed")
        if not has_kubeconfig:
            reasons.append("its kubeconfig is missing, or leads elsewhere")
    if reasons:
        return Due((CHANGE, VERIFY), tuple(reasons))
    at = datetime.datetime.strptime(record["at"], TIME).replace(tzinfo=datetime.UTC)
    if (age := (now - at).total_seconds()) > max_age:
        return Due((VERIFY,), (f"it was verified {age:.0f} s ago, more than {max_age}",))
    if any(result["verdict"] != "passed" for result in live.results):
        return Due((VERIFY,), ("not all checks passed",))
    return Due()


def gather(
    namespaces: t.Iterable[Object],
    workloads: t.Iterable[Object],
    pods: t.Iterable[Object],
    nodes: t.Iterable[Object],
    secrets: t.Iterable[Object],
    records: t.Iterable[Object],
) -> dict[str, Live]:
    """Sort what lies on a host cluster by tenant.

    :arg namespaces: those with the label of this collection.
    :arg secrets: those with the kubeconfigs of virtual clusters.
    """
    tenants = {
        item["metadata"]["name"]: (labels_of(item)[vc.TENANT_LABEL], item)
        for item in namespaces
        if vc.TENANT_LABEL in labels_of(item)
    }
    pods_in, secret_in, record_in = _by_namespace(pods), _by_namespace(secrets), _by_namespace(records)
    workload_in = _by_namespace(workloads)
    nodes_of: dict[str, list[Object]] = {}
    for node in nodes:
        for owner in owners(labels_of(node)):
            nodes_of.setdefault(owner, []).append(node)
    live = {}
    for where, (name, namespace) in tenants.items():
        mine = [item for item in workload_in.get(where, []) if item["metadata"]["name"] == name]
        live[name] = Live(
            namespace,
            mine[0] if mine else None,
            tuple(pods_in.get(where, [])),
            tuple(nodes_of.get(name, [])),
            next((item for item in secret_in.get(where, []) if item["metadata"]["name"] == f"vc-{name}"), None),
            next(iter(record_in.get(where, [])), None),
        )
    for name in nodes_of.keys() - live.keys():
        live[name] = Live(nodes=tuple(nodes_of[name]))
    return live


def _by_namespace(items: t.Iterable[Object]) -> dict[str, list[Object]]:
    sorted_items: dict[str, list[Object]] = {}
    for item in items:
        sorted_items.setdefault(item["metadata"]["namespace"], []).append(item)
    return sorted_items


def node_selector(name: str) -> dict[str, str]:
    """Return the label by which a tenant's nodes are chosen."""
    return {NODE_LABEL + name: "true"}
