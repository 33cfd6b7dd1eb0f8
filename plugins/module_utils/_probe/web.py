# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether a cluster runs ordinary workloads: a page that a Deployment serves is fetched through its Service."""

from __future__ import annotations

import secrets
import typing as t

from .._common.errors import WaitTimeout
from .._common.names import QUEUE_LABEL
from .._common.pods import is_ended, is_ready, pod_spec, pod_state
from .._common.values import JsonObject
from .._queues.validation import parse
from .._queues.values import leaves
from .facts import FAILED, PASSED
from .lifecycle import PODS, await_verdict, own_namespace
from .plan import Settings, page_spec, pod
from .status import Verdict, concluded, record, termination_message, untried

if t.TYPE_CHECKING:
    from .._common.run import Result, Run

CHECKS = PAGE, SCHEDULER = ("page", "scheduler")
NAME = "kubegpu-web-probe"
# Of pods that name none.
DEFAULT_SCHEDULER = "default-scheduler"
PORT = 8080
# What pods come from in the probe's namespace.
KINDS = (("apps/v1", "Deployment"), *PODS)


def probe(run: Run) -> Result:
    """Serve a page, fetch it, and return the record of each of CHECKS."""
    settings = Settings.of(run.params)
    queues = leaves(parse(run.params["queues"]))
    if run.check_mode:
        return concluded(untried(CHECKS), 0.0)
    kube, deadline, token = run.kube, run.deadline, secrets.token_hex(16)

    def pods() -> list[JsonObject]:
        return kube.list("v1", "Pod", settings.namespace)

    with own_namespace(kube, settings.namespace, deadline, KINDS):
        for manifest in manifests(settings, token, round(deadline.left()), queues[0].name if queues else ""):
            kube.create(manifest)
        try:
            verdict, reason = await_verdict("the web page", lambda: outcome(pods(), token), deadline)
        except WaitTimeout as exc:
            verdict, reason = FAILED, exc.message
        foreign = foreign_schedulers(pods(), settings.scheduler_name)
        seconds = deadline.elapsed()
    placed = (FAILED, ", ".join(foreign)) if foreign else (PASSED, settings.scheduler_name)
    return concluded([record(PAGE, verdict, reason, seconds), record(SCHEDULER, *placed, seconds)], deadline.elapsed())


def manifests(settings: Settings, token: str, seconds: int, queue: str = "") -> list[JsonObject]:
    """Return Deployment and Service of the page, and the pod that fetches it.

    :arg token: the text of the page.
    :arg seconds: how long the pod tries.
    :arg queue: the queue of KAI Scheduler that the pods are submitted to; empty for none.
    """
    here = {"name": NAME, "namespace": settings.namespace}
    server = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "server"}
    # Of the lowest class, which may be placed above its queue's quota.
    submitted = {QUEUE_LABEL: queue, "priorityClassName": "train"} if queue else {}
    placed = {"schedulerName": settings.scheduler_name}
    page = pod(settings, page_spec(settings.image, token, PORT) | placed)
    # The answer travels in the container's termination message: no log, so no kubelet, has to be reached.
    fetch = (
        f"tries=0; until page=$(wget -q -T 2 -O - http://{NAME}.{settings.namespace}.svc:{PORT}/ 2>&1); do "
        f'tries=$((tries + 1)); if [ $tries -ge {seconds} ]; then echo "$page" > /dev/termination-log; exit 1; fi; '
        'sleep 1; done; echo "$page" > /dev/termination-log'
    )
    client = pod_spec(settings.image, fetch) | placed | {"restartPolicy": "Never"}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": here,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": server},
                "template": {"metadata": {"labels": server | submitted}, "spec": page["spec"]},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": here,
            "spec": {"selector": server, "ports": [{"port": PORT, "targetPort": PORT}]},
        },
        pod(settings, client, name=NAME, **({"labels": submitted} if submitted else {})),
    ]


def outcome(pods: list[JsonObject], token: str) -> Verdict:
    """Return the verdict on the page once the client has ended.

    :arg token: the text of the page.
    """
    client = next((pod for pod in pods if pod["metadata"]["name"] == NAME), None)
    if client is None:
        return None, "the client pod does not exist"
    if not is_ended(client):
        waiting = [pod for pod in pods if not is_ready(pod)]
        return None, "; ".join(map(pod_state, waiting)) or "the client is still fetching the page"
    message = termination_message(client)
    if client["status"]["phase"] == "Succeeded":
        served = message == token
        return (PASSED, f"fetched through Service {NAME}") if served else (FAILED, f"another page was served: {message[:80]!r}")
    others = [pod_state(pod) for pod in pods if pod is not client and not is_ready(pod)]
    return FAILED, "; ".join([f"the client could not fetch the page: {message or pod_state(client)}", *others])


def foreign_schedulers(pods: list[JsonObject], wanted: str) -> list[str]:
    """Return the schedulers other than the wanted one that the pods name."""
    return sorted({pod["spec"].get("schedulerName", DEFAULT_SCHEDULER) for pod in pods} - {wanted})
