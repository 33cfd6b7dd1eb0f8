# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have the pods of a restored virtual cluster placed as new ones are."""

from __future__ import annotations

import base64
import typing as t

from .._common.ownership import last_write
from .._common.pods import has_controller, is_ended, is_ready, pod_state
from .._common.text import shown
from .._common.values import JsonObject
from .._common.wait import wait_for
from .facts import AUTHORITY_MAP, BIND_REQUEST, SERVICES
from .status import unscheduled_again

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


class Placement:
    """The pods of one virtual cluster after a restore.

    :arg tenant: its name; ``kube``, the adapter to its API server.
    """

    def __init__(self, run: Run, tenant: str, kube: Kube) -> None:
        self.run = run
        self.tenant = tenant
        self.kube = kube

    def schedule_again(self, config: JsonObject, began: str) -> None:
        """Have the restored pods placed as new ones are.

        :arg config: the kubeconfig of the virtual cluster; ``began``, when the restore began, as the API writes times.
        """
        self._replace_pods_of_another_authority(config, began)
        pods = unscheduled_again(self.kube.list("v1", "Pod"))
        if not pods:
            return

        def release() -> None:
            names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
            for request in self.kube.list(*BIND_REQUEST):
                namespace = request["metadata"]["namespace"]
                if (namespace, (request.get("spec") or {}).get("podName")) in names:
                    self.kube.delete(*BIND_REQUEST, request["metadata"]["name"], namespace)
            for namespace, name in sorted(names):
                self.kube.patch("v1", "Pod", name, {"status": {"phase": "Pending"}}, namespace, "status")

        self.run.perform(f"have {len(pods)} pods placed again", "the backup holds them without a node", release)
        services = f"KAI Scheduler and DNS of tenant {self.tenant}"
        self.run.perform(
            "wait for its own services",
            "its scheduler and webhooks start anew",
            lambda: wait_for(services, self._services, self.run.deadline),
        )

    def _replace_pods_of_another_authority(self, config: JsonObject, began: str) -> None:
        """Have controllers make their pods anew where the virtual cluster has another certificate authority than the backup.

        The API server's controllers write the authority into each namespace, but a pod that started before goes on with the former one.
        """
        data = config["clusters"][0]["cluster"]["certificate-authority-data"]
        authority = base64.b64decode(data).decode(errors="replace").strip()

        def published() -> tuple[list[JsonObject] | None, str]:
            maps = self.kube.list("v1", "ConfigMap", field_selector=f"metadata.name={AUTHORITY_MAP}")
            former = [
                one["metadata"]["namespace"] for one in maps if ((one.get("data") or {}).get("ca.crt") or "").strip() != authority
            ]
            return (None, f"namespaces {shown(', '.join(former))} have another one") if former else (maps, "")

        maps = wait_for(f"the certificate authority of tenant {self.tenant}", published, self.run.deadline)
        writes = [last_write(one, ("data",)) for one in maps]
        if not any(write is not None and write.since >= began for write in writes):
            return
        pods = [pod for pod in self.kube.list("v1", "Pod") if has_controller(pod) and not is_ended(pod)]

        def delete() -> None:
            for pod in pods:
                self.kube.delete("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])

        self.run.perform(f"have controllers make {len(pods)} pods anew", "the certificate authority is another one", delete)

    def _services(self) -> tuple[bool | None, str]:
        """Observe whether KAI Scheduler and the cluster's DNS run again; without them, nothing in the virtual cluster can be judged."""
        pods = [pod for namespace in SERVICES for pod in self.kube.list("v1", "Pod", namespace)]
        waiting = [pod_state(pod) for pod in pods if not is_ready(pod) and not is_ended(pod)]
        return (None, "; ".join(waiting)) if waiting else (True, "")
