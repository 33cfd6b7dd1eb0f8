# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Answer KAI Scheduler's pod webhooks with a copy of its admission pod while another release, or other values, take its place.

The webhooks fail closed, and the operator ends the admission pod before it makes the next one (strategy Recreate), so that the API
server would refuse new pods for as long as that one needs to start. The copy stands behind the same Service with the same certificate.
"""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import TenancyError
from .._common.names import KAI_NAMESPACE
from .._common.ownership import OWNED_LABELS, labels_of
from .._common.pods import is_ready, pod_state
from .._common.values import JsonObject
from .._common.wait import wait_for
from .facts import ADMISSION_SERVER
from .status import unavailable

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


NAME = "kubegpu-admission"
# By it the Service tells the copy from KAI's own pod.
_LABEL = {"kubegpu.tenancy/stand-in": ADMISSION_SERVER}
# Seconds until no node sends a request to a pod that a Service does not select any more: kube-proxy writes its rules at most once a
# second, and inside a tenant the change goes through vCluster first. With 3, one pod was refused on a busy machine.
_DRAIN = 5.0


def exists(kube: Kube) -> bool:
    """Tell whether there is a copy, which a killed run left."""
    return kube.get("v1", "Pod", NAME, KAI_NAMESPACE) is not None


def start(run: Run) -> None:
    """Start the copy and wait until it answers; warn where none can be had. One of a killed run goes on."""
    kube = run.kube
    try:
        if not exists(kube):
            server = kube.get("apps/v1", "Deployment", ADMISSION_SERVER, KAI_NAMESPACE)
            if server is None or unavailable([ADMISSION_SERVER], [server]):
                # Nothing answers, so there is nothing to be kept.
                return
            kube.create(_copy(server))
        wait_for("the copy of the admission pod", functools.partial(_answers, kube), run.deadline.share(1 / 4))
    except TenancyError as exc:
        kube.delete("v1", "Pod", NAME, KAI_NAMESPACE)
        run.warn(f"New pods may be refused for some seconds: {exc.message}")


def take_over(run: Run) -> None:
    """Have the copy answer alone, where there is one."""
    kube = run.kube
    if exists(kube) and kube.get("v1", "Service", ADMISSION_SERVER, KAI_NAMESPACE):
        kube.patch("v1", "Service", ADMISSION_SERVER, {"spec": {"selector": _LABEL}}, KAI_NAMESPACE)
        run.deadline.sleep(_DRAIN)


def end(run: Run) -> None:
    """Have KAI's own pod answer alone, and remove the copy."""
    kube = run.kube
    if not exists(kube):
        return
    if kube.get("v1", "Service", ADMISSION_SERVER, KAI_NAMESPACE):
        # The operator wrote the selector anew, unless it had no reason to look at the Service.
        kube.patch("v1", "Service", ADMISSION_SERVER, {"spec": {"selector": dict.fromkeys(_LABEL)}}, KAI_NAMESPACE)
    kube.patch("v1", "Pod", NAME, {"metadata": {"labels": {"app": None}}}, KAI_NAMESPACE)
    run.deadline.sleep(_DRAIN)
    kube.delete("v1", "Pod", NAME, KAI_NAMESPACE, grace_seconds=1)
    # The next run would take one that is on its way out for one that a killed run left.
    wait_for("the end of the copy of the admission pod", lambda: (not exists(kube) or None, "it is there"), run.deadline)


def _copy(server: JsonObject) -> JsonObject:
    """Return a pod like those of the admission's Deployment, which is ready as soon as it answers."""
    template = server["spec"]["template"]
    containers = [
        container | {"readinessProbe": container["readinessProbe"] | {"initialDelaySeconds": 0, "periodSeconds": 1}}
        if "readinessProbe" in container
        else container
        for container in template["spec"]["containers"]
    ]
    metadata = {"name": NAME, "namespace": KAI_NAMESPACE, "labels": labels_of(template) | OWNED_LABELS | _LABEL}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] | {"containers": containers}}


def _answers(kube: Kube) -> tuple[bool | None, str]:
    """Probe for ``wait_for``: True once the copy is ready."""
    pod = kube.get("v1", "Pod", NAME, KAI_NAMESPACE)
    return (is_ready(pod) or None, pod_state(pod)) if pod else (None, "it is gone")
