# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What probes share: a namespace that exists while they look, and pods that every trust profile accepts."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, Object
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for

PODS = (("v1", "Pod"),)


@contextlib.contextmanager
def own_namespace(
    kube: Kube, name: str, timeout: float, kinds: t.Iterable[tuple[str, str]] = PODS
) -> t.Generator[None, None, None]:
    """A namespace that is emptied and deleted when the block ends, however it ends.

    Empty, it is nobody's any more, but the cluster takes at least five seconds to let it go (kube-controller-manager's
    namespace controller), for which only the next probe waits.

    :arg timeout: seconds until it can be used, and again until it is empty.
    :arg kinds: what pods come from in it.
    """
    if found := kube.get("v1", "Namespace", name):
        if not OWNED_LABELS.items() <= (found["metadata"].get("labels") or {}).items():
            raise TenancyError(f"namespace: {name} exists and is not ours. Name one that the probe may delete.")
        # The probe before is hardly over, or it was killed.
        _remove(kube, name, timeout, kinds)
        wait_for(f"the end of namespace {name}", lambda: _gone(kube, name), timeout, interval=0.3)
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": OWNED_LABELS}})
    try:
        # Pods are refused before it is there.
        wait_for(
            "the namespace's service account",
            lambda: (kube.get("v1", "ServiceAccount", "default", name), "it does not exist"),
            timeout,
            interval=0.2,
        )
        yield
    finally:
        _remove(kube, name, timeout, kinds)


def _remove(kube: Kube, name: str, timeout: float, kinds: t.Iterable[tuple[str, str]]) -> None:
    def emptied() -> tuple[bool | None, str]:
        left = [(api_version, kind, item) for api_version, kind in kinds for item in kube.list(api_version, kind, name)]
        for api_version, kind, item in left:
            # What has an owner goes with it; deleted first, it would only come back.
            if not item["metadata"].keys() & {"deletionTimestamp", "ownerReferences"}:
                kube.delete(api_version, kind, item["metadata"]["name"], name)
        return (None, ", ".join(f"{kind} {item['metadata']['name']}" for _api, kind, item in left)) if left else (True, "")

    # Emptied first: deleted with pods in it, it would be looked at again only after many seconds.
    try:
        wait_for(f"the end of the pods in namespace {name}", emptied, timeout, interval=0.3)
    finally:
        kube.delete("v1", "Namespace", name)


def _gone(kube: Kube, name: str) -> tuple[bool | None, str]:
    return (None, "it still exists") if kube.get("v1", "Namespace", name) else (True, "")


def pod_spec(image: str, script: str, **container: t.Any) -> Object:
    """A pod with one container that runs a shell's script."""
    # Satisfies the pod security standard `restricted` and a quota, so that one probe serves every trust profile.
    return {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "probe",
                "image": image,
                "command": ["/bin/sh", "-c", script],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}},
            }
            | container
        ],
    }


def concluded(results: list[Object], start: float) -> Object:
    """What a module returns of its checks, begun at ``start`` of the monotonic clock.

    :raises TenancyError: when one failed, with all ``results``.
    """
    failed = [f"{found['name']}: {found['reason']}" for found in results if found["verdict"] == "failed"]
    if failed:
        raise TenancyError(f"{len(failed)} of {len(results)} checks failed. {'; '.join(failed)}", results=results)
    return {"changed": False, "results": results, "seconds": round(time.monotonic() - start, 1)}


def is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def page_spec(image: str, page: str, port: int) -> Object:
    """A pod that serves a page and is ready when it does."""
    return pod_spec(
        image,
        f"echo {page} > /page/index.html && exec httpd -f -p {port} -h /page",
        ports=[{"containerPort": port}],
        readinessProbe={"httpGet": {"path": "/", "port": port}, "periodSeconds": 1},
        volumeMounts=[{"name": "page", "mountPath": "/page"}],
    ) | {"volumes": [{"name": "page", "emptyDir": {}}]}
