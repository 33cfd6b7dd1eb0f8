# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant with a KAI Scheduler of its own, as the host cluster's API shows it, for tests that judge tenants."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced

Object = dict[str, Any]

KAI_VERSION, VCLUSTER_VERSION = "v0.13.1", "0.36.1"
CONTROL_PLANE = {
    "initContainers": [{"name": "kubernetes", "image": "ghcr.io/loft-sh/kubernetes:v1.35.4"}],
    "containers": [{"name": "syncer", "image": f"ghcr.io/loft-sh/vcluster-oss:{VCLUSTER_VERSION}"}],
}


def desired(name: str, **more: Any) -> Object:
    """Return a tenant as an inventory lists it."""
    scheduler = {"name": "kai", "version": KAI_VERSION}
    return {"name": name, "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": scheduler, "queues": [{"name": "q"}]} | more


def by_index(problems: list[str]) -> list[str]:
    """Return problems of tenants as they would be without the tenants' names beside their indices."""
    return [re.sub(r"(kubegpu_tenants\[\d+\]) \([-a-z0-9]+\)", r"\1", problem) for problem in problems]


def item(api_version: str, kind: str, name: str, namespace: str | None = None, **more: Any) -> Object:
    """Return an object of the API; ``labels`` and ``annotations`` are its metadata's."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    metadata |= {key: more.pop(key) for key in ("labels", "annotations", "uid", "generation", "deletionTimestamp") if key in more}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | more


def pod(name: str, namespace: str, image: str = "image:1", **labels: str) -> Object:
    return item(
        "v1",
        "Pod",
        name,
        namespace,
        uid=f"uid-{name}",
        labels=labels,
        spec={"containers": [{"name": "main", "image": image}]},
        status={"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": 0}]},
    )


def node(name: str, *tenants: str, gpus: int = 4) -> Object:
    return item(
        "v1",
        "Node",
        name,
        labels={f"tenant.kubegpu.tenancy/{tenant}": "true" for tenant in tenants},
        spec={},
        status={
            "capacity": {"nvidia.com/gpu": str(gpus)},
            "allocatable": {"nvidia.com/gpu": str(gpus)},
            "nodeInfo": {"bootID": "boot-1"},
        },
    )


def on_host(name: str = "ml", shared: bool = False) -> list[Object]:
    """Return everything that a tenant is on its host cluster.

    :arg shared: the host cluster's KAI Scheduler places its pods, instead of one of its own.
    """
    namespace = f"tenant-{name}"
    scheduler = pod("scheduler", namespace, f"registry:5000/kai/scheduler:{KAI_VERSION}", app="kai-scheduler-default")
    installed = {} if shared else {"kubegpu.tenancy/scheduler-version": KAI_VERSION}
    return [
        item(
            "v1",
            "Namespace",
            namespace,
            labels=OWNED_LABELS | {"kubegpu.tenancy/tenant": name} | ({"kubegpu.tenancy/scheduler": "kai"} if shared else {}),
            annotations={
                "kubegpu.tenancy/trust": "high",
                "kubegpu.tenancy/network-policies": "enforced",
                "kubegpu.tenancy/rendered-for": "1.35",
            }
            | installed,
        ),
        item(
            "apps/v1",
            "StatefulSet",
            name,
            namespace,
            uid=f"uid-{name}",
            generation=1,
            labels={"app": "vcluster", "chart": f"vcluster-{VCLUSTER_VERSION}"},
            spec={"replicas": 1, "template": {"spec": CONTROL_PLANE}},
            status={"observedGeneration": 1, "readyReplicas": 1, "updatedReplicas": 1},
        ),
        item("v1", "Service", name, namespace, labels={"app": "vcluster"}, spec={"ports": [{"port": 443, "nodePort": 31001}]}),
        pod(f"{name}-0", namespace, app="vcluster", release=name),
        synced(scheduler, name, "default" if shared else "kai-scheduler"),
        synced(pod("train", namespace, app="train"), name),
        item(
            "v1",
            "Secret",
            f"vc-{name}",
            namespace,
            labels={"app": "vcluster", "vcluster-name": name},
            data={"certificate-authority": f"ca-{name}", "client-certificate": f"cert-{name}", "client-key": f"key-{name}"},
        ),
        node(f"gpu-{name}", name),
    ]


def host_kai(version: str = KAI_VERSION) -> list[Object]:
    """Return a KAI Scheduler that this collection installed in the host cluster."""
    image = f"registry:5000/kai/scheduler:{version}"
    template = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return [
        item("v1", "Namespace", "kai-scheduler", labels=dict(OWNED_LABELS)),
        item(
            "apps/v1",
            "Deployment",
            "admission",
            "kai-scheduler",
            spec={"template": {"spec": {"containers": [{"image": "x:other"}]}}},
        ),
        item("apps/v1", "Deployment", "kai-scheduler-default", "kai-scheduler", spec={"template": template}),
        pod("host-scheduler", "kai-scheduler", image, app="kai-scheduler-default"),
    ]


def kubeconfig(name: str = "ml") -> Object:
    """Return the kubeconfig that leads into the tenant."""
    cluster = {"server": "https://10.0.0.3:31001", "certificate-authority-data": f"ca-{name}"}
    user = {"client-certificate-data": f"cert-{name}", "client-key-data": f"key-{name}"}
    return {
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
