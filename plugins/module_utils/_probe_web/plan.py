# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the probe of ordinary workloads: a web page served by a Deployment, and a pod that fetches it through its Service."""

from __future__ import annotations

import dataclasses

from .._common.names import QUEUE_LABEL
from .._common.pods import pod_spec
from .._common.values import JsonObject
from .._probe.plan import IMAGE, page_spec

NAME = "kubegpu-web-probe"
SCHEDULER = "default-scheduler"
PORT = 8080


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the probe runs.

    :ivar scheduler_name: the scheduler that has to place the pods.
    :ivar queue: the queue of KAI Scheduler that they are submitted to; empty for none.
    """

    namespace: str = NAME
    image: str = IMAGE
    scheduler_name: str = SCHEDULER
    queue: str = ""
    tolerations: tuple[JsonObject, ...] = ()


def manifests(settings: Settings, token: str, seconds: int) -> list[JsonObject]:
    """Return Deployment and Service of the page, and the pod that fetches it.

    :arg token: the text of the page.
    :arg seconds: how long the pod tries.
    """
    namespace = settings.namespace
    server = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "server"}
    # Of the lowest class, which may be placed above its queue's quota.
    submitted = {QUEUE_LABEL: settings.queue, "priorityClassName": "train"} if settings.queue else {}
    placed = {"schedulerName": settings.scheduler_name, "tolerations": list(settings.tolerations)}
    # The answer travels in the container's termination message: no log, so no kubelet, has to be reached.
    fetch = (
        f"tries=0; until page=$(wget -q -T 2 -O - http://{NAME}.{namespace}.svc:{PORT}/ 2>&1); do "
        f'tries=$((tries + 1)); if [ $tries -ge {seconds} ]; then echo "$page" > /dev/termination-log; exit 1; fi; '
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
                "template": {"metadata": {"labels": server | submitted}, "spec": page_spec(settings.image, token, PORT) | placed},
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
            "spec": pod_spec(settings.image, fetch) | placed | {"restartPolicy": "Never"},
        },
    ]
