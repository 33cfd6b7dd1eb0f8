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
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import event_time
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import NAMESPACE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.cluster import (
    Answer,
    Cluster,
    Object,
    key_of,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._pending.status import last_error, report
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.facts import POD_GROUP
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import API_VERSION, KIND
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import from_live

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Result, Run

# Pods that have succeeded are many, and none of them waits or holds anything.
_PODS = "status.phase!=Succeeded"


def pending(run: Run) -> Result:
    """Return why the chosen pods of a cluster wait, and which run past KAI Scheduler, as the options of kai_pending_info say."""
    kube, params = run.kube, run.params
    cluster = read(kube, params["scheduler_name"])
    chosen = cluster.pods
    if params["label_selector"]:
        labelled = {key_of(pod) for pod in kube.list("v1", "Pod", None, params["label_selector"], _PODS)}
        chosen = [pod for pod in chosen if key_of(pod) in labelled]
    if params["namespaces"]:
        chosen = [pod for pod in chosen if key_of(pod)[0] in params["namespaces"]]
    now = datetime.datetime.now(datetime.timezone.utc)
    rows = report(chosen, cluster, now)
    if any(row["reason"] == facts.UNKNOWN for row in rows):
        rows = report(chosen, dataclasses.replace(cluster, trouble=_trouble(run, cluster)), now)
    return {"changed": False, "pods": rows}


def read(kube: Kube, scheduler: str) -> Cluster:
    """Read a cluster, with one list of each kind; kinds that it does not have count as empty.

    :arg scheduler: the name by which pods ask for KAI Scheduler.
    """
    requests = kube.list(*facts.BIND_REQUEST)
    return Cluster(
        scheduler=scheduler,
        pods=kube.list("v1", "Pod", field_selector=_PODS),
        nodes=kube.list("v1", "Node"),
        groups={key_of(group): group for group in kube.list(*POD_GROUP)},
        queues=from_live(kube.list(API_VERSION, KIND)),
        requests={(key_of(request)[0], request["spec"].get("podName", "")): request for request in requests},
        events=_by_pod(kube.list("v1", "Event", field_selector="involvedObject.kind=Pod")),
    )


def _by_pod(events: list[Object]) -> dict[str, list[Object]]:
    grouped: dict[str, list[Object]] = collections.defaultdict(list)
    for event in sorted(events, key=event_time):
        grouped[event["involvedObject"].get("uid", "")].append(event)
    return grouped


def _trouble(run: Run, cluster: Cluster) -> Answer | None:
    """Return the last error that KAI's scheduler logged; a log that cannot be read is a warning."""
    logs = {}
    for pod in cluster.schedulers:
        name = pod["metadata"]["name"]
        try:
            logs[name] = run.kube.logs(name, NAMESPACE, lines=facts.LOG_LINES, seconds=facts.LOG_SECONDS)
        except TenancyError as exc:
            run.warn(f"Why pods wait may be in the log of pod {name} in {NAMESPACE}, which cannot be read: {exc.message}")
    return last_error(logs)
