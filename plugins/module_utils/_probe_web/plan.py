# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""A web page served by a Deployment and fetched through its Service: manifests and the reading of their outcome."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import is_ready, page_spec, pod_spec
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.facts import QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import pod_state

Object = dict[str, t.Any]

NAME = "kubegpu-web-probe"
SCHEDULER = "default-scheduler"
PORT = 8080


def manifests(
    namespace: str, image: str, token: str, timeout: int, scheduler_name: str = SCHEDULER, queue: str = ""
) -> list[Object]:
    """Deployment and Service of the page, and the pod that fetches it.

    :arg token: what the page says.
    :arg timeout: seconds the client tries.
    :arg scheduler_name: which scheduler places the pods; ``queue``, to which of KAI Scheduler's queues they are submitted.
    """
    server = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "server"}
    # Of the lowest class, which may be placed above its queue's quota.
    submitted = {QUEUE_LABEL: queue, "priorityClassName": "train"} if queue else {}
    placed = {"schedulerName": scheduler_name}
    # The answer travels in the container's termination message: no log, so no kubelet, has to be reached.
    fetch = (
        f"tries=0; until page=$(wget -q -T 2 -O - http://{NAME}.{namespace}.svc:{PORT}/ 2>&1); do "
        f'tries=$((tries + 1)); if [ $tries -ge {timeout} ]; then echo "$page" > /dev/termination-log; exit 1; fi; '
        'sleep 1; done; echo "$page" > /dev/termination-log'
    )
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": server},
                "template": {"metadata": {"labels": server | submitted}, "spec": page_spec(image, token, PORT) | placed},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {"selector": server, "ports": [{"port": PORT, "targetPort": PORT}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": NAME, "namespace": namespace} | ({"labels": submitted} if submitted else {}),
            "spec": pod_spec(image, fetch) | placed | {"restartPolicy": "Never"},
        },
    ]


def outcome(pods: list[Object], token: str) -> tuple[str | None, str]:
    """("passed" or "failed", reason) once the client has ended; before that (None, what is seen)."""
    client = next((pod for pod in pods if pod["metadata"]["name"] == NAME), None)
    if client is None:
        return None, "the client pod does not exist"
    phase = client.get("status", {}).get("phase")
    if phase not in ("Succeeded", "Failed"):
        waiting = [pod for pod in pods if not is_ready(pod)]
        return None, "; ".join(map(pod_state, waiting)) or "the client is still fetching the page"
    said = _last_words(client)
    if phase == "Succeeded" and said == token:
        return "passed", f"fetched through Service {NAME}"
    if phase == "Succeeded":
        return "failed", f"another page was served: {said[:80]!r}"
    others = [pod_state(pod) for pod in pods if pod is not client and not is_ready(pod)]
    return "failed", "; ".join([f"the client could not fetch the page: {said or pod_state(client)}", *others])


def foreign_schedulers(pods: list[Object], wanted: str) -> list[str]:
    """Schedulers other than the wanted one that the pods name."""
    return sorted({pod["spec"].get("schedulerName", SCHEDULER) for pod in pods} - {wanted})


def _last_words(pod: Object) -> str:
    for status in pod["status"].get("containerStatuses") or []:
        return str((status["state"].get("terminated") or {}).get("message", "")).strip()
    return ""
