# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what tells why pods wait: lists of the whole cluster, and the scheduler's log where these say nothing."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.parties import Unread, each, reason
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import event_time
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.quantity import whole
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import NAMESPACE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.cluster import (
    Answer,
    Cluster,
    Key,
    Object,
    key_name,
    key_of,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.status import last_error, report
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.facts import POD_GROUP
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import API_VERSION, KIND
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import from_live, readable

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run

# Pods that have succeeded are many, and none of them waits or holds anything.
_PODS = "status.phase!=Succeeded"


def pending(run: Run) -> Result:
    """Return why the chosen pods of a cluster wait, and which run past KAI Scheduler, as the options of kai_pending_info say."""
    kube, params = run.kube, run.params
    cluster, unread = read(kube, params["scheduler_name"])
    chosen = cluster.pods
    if params["label_selector"]:
        labelled = {key_of(pod) for pod in kube.list("v1", "Pod", None, params["label_selector"], _PODS)}
        chosen = [pod for pod in chosen if key_of(pod) in labelled]
    if params["namespaces"]:
        chosen = [pod for pod in chosen if key_of(pod)[0] in params["namespaces"]]
    now = datetime.datetime.now(datetime.timezone.utc)
    rows, unjudged = report(chosen, cluster, now)
    if any(row["reason"] == facts.UNKNOWN for row in rows):
        rows, unjudged = report(chosen, dataclasses.replace(cluster, trouble=_trouble(run, cluster)), now)
    return {"changed": False, "pods": rows, "unread": [one.sentence for one in [*unread, *unjudged]]}


def read(kube: Kube, scheduler: str) -> tuple[Cluster, list[Unread]]:
    """Read a cluster, with one list of each kind; kinds that it does not have count as empty.

    :arg scheduler: the name by which pods ask for KAI Scheduler.
    :returns: the cluster, and the objects of KAI Scheduler that have not the form of their kind.
    """
    requests, odd_requests = each(kube.list(*facts.BIND_REQUEST), lambda item: f"BindRequest {key_name(item)}", _request)
    queues, odd_queues = readable(kube.list(API_VERSION, KIND))
    groups, odd_groups = each(kube.list(*POD_GROUP), lambda item: f"PodGroup {key_name(item)}", _group)
    cluster = Cluster(
        scheduler=scheduler,
        pods=kube.list("v1", "Pod", field_selector=_PODS),
        nodes=kube.list("v1", "Node"),
        groups=dict(groups),
        queues=from_live(queues),
        requests=dict(requests),
        events=_by_pod(kube.list("v1", "Event", field_selector="involvedObject.kind=Pod")),
    )
    return cluster, [*odd_requests, *odd_queues, *odd_groups]


def _request(item: Object) -> tuple[Key, Object]:
    """Return a BindRequest by its pod.

    :raises Exception: where it has not the form of one.
    """
    groups = item["spec"].get("selectedGPUGroups") or []
    return (key_of(item)[0], str(item["spec"].get("podName", ""))), item | {
        "spec": item["spec"] | {"selectedGPUGroups": [str(group) for group in groups]},
        "status": dict(item.get("status") or {}),
    }


def _group(item: Object) -> tuple[Key, Object]:
    """Return a PodGroup by its name.

    :raises Exception: where it has not the form of one.
    """
    spec = dict(item.get("spec") or {})
    parts = [{"name": str(part["name"]), "minMember": whole(part.get("minMember") or 0)} for part in spec.get("subGroups") or []]
    spec |= {"minMember": whole(spec.get("minMember") or 0), "subGroups": parts}
    spec |= {"queue": str(spec["queue"])} if spec.get("queue") else {}
    return key_of(item), item | {"spec": spec}


def _by_pod(events: list[Object]) -> dict[str, list[Object]]:
    grouped: dict[str, list[Object]] = collections.defaultdict(list)
    for event in sorted(events, key=event_time):
        grouped[str((event.get("involvedObject") or {}).get("uid", ""))].append(event)
    return grouped


def _trouble(run: Run, cluster: Cluster) -> Answer | None:
    """Return the last error that KAI's scheduler logged; a log that cannot be read is a warning."""
    logs = {}
    for pod in cluster.schedulers:
        name = pod["metadata"]["name"]
        try:
            logs[name] = run.kube.logs(name, NAMESPACE, lines=facts.LOG_LINES, seconds=facts.LOG_SECONDS)
        except TenancyError as exc:
            run.warn(f"Why pods wait may be in the log of pod {name} in {NAMESPACE}, which cannot be read: {reason(exc)}")
    return last_error(logs)
