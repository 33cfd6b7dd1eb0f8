# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of a cluster in which pods wait, shaped as Kubernetes and KAI Scheduler write them."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

CREATED = "2026-11-22T12:00:00Z"
READY = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
NO_ROOM = "no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs."


def pod(name: str = "train-0", *, gpus: int = 0, queue: str = "ml", namespace: str = "team", **more: Any) -> Object:
    """A pod that waits for KAI Scheduler; ``labels``, ``annotations``, ``status`` and fields of its spec by name."""
    labels = ({"kai.scheduler/queue": queue} if queue else {}) | more.pop("labels", {})
    annotations = {"pod-group-name": f"pg-{name}"} | more.pop("annotations", {})
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": CREATED}
    metadata |= {"labels": labels, "annotations": annotations} | more.pop("metadata", {})
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}}
    status = {"phase": "Pending"} | more.pop("status", {})
    spec = {"schedulerName": "kai-scheduler", "containers": [container]} | more
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def scheduler(version: str = "v0.13.1", status: Object | None = None) -> Object:
    """KAI's own scheduler."""
    containers = [{"name": "scheduler", "image": f"registry.example/kai-scheduler/scheduler:{version}"}]
    metadata = {"name": "kai-scheduler-default-1", "namespace": "kai-scheduler", "labels": {"app": "kai-scheduler-default"}}
    spec = {"schedulerName": "default-scheduler", "nodeName": "n1", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status or READY}


def node(name: str = "n1", gpus: int = 8) -> Object:
    allocatable = {"cpu": "64", "memory": "512Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {"allocatable": allocatable}}


def queue(name: str, parent: str = "") -> Object:
    spec = {"parentQueue": parent} if parent else {}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def group(name: str = "train-0", *reasons: Object, queue: str = "ml", **spec: Any) -> Object:
    """The PodGroup of a pod, unschedulable for these reasons."""
    condition = {"type": "UnschedulableOnNodePool", "nodePool": "default", "reason": "Unschedulable", "status": "True"}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": f"pg-{name}", "namespace": "team"},
        "spec": {"queue": queue, "minMember": 1} | spec,
        "status": {"schedulingConditions": [condition | {"reasons": list(reasons)}] if reasons else []},
    }


def told(reason: str, message: str, **details: Any) -> Object:
    """A reason of a PodGroup's condition."""
    return {"reason": reason, "message": message} | ({"details": {"queueDetails": details}} if details else {})


def event(
    reason: str, message: str, name: str = "train-0", at: str = "2026-11-22T12:05:00Z", kind: str = "Pod", container: str = ""
) -> Object:
    about = {"kind": kind, "namespace": "team", "name": name, "uid": f"uid-{name}"} | (
        {"fieldPath": container} if container else {}
    )
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason}.{at}", "namespace": "team"},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


def unschedulable(message: str) -> Object:
    """A pod's status, as either scheduler writes it."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}


def bind_request(groups: tuple[str, ...] = (), **status: Any) -> Object:
    spec = {"podName": "train-0", "selectedNode": "n1"} | ({"selectedGPUGroups": list(groups)} if groups else {})
    return {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": "train-0", "namespace": "team"},
        "spec": spec,
        "status": status,
    }


def reservation(gpu_group: str, status: Object, gpu: str = "") -> Object:
    """The pod that reserves a GPU."""
    made = pod(
        f"gpu-reservation-{gpu_group}", gpus=1, queue="", namespace="kai-resource-reservation", status=status, nodeName="n1"
    )
    made["metadata"]["labels"] = {"app": "kai-resource-reservation", "runai-gpu-group": gpu_group}
    made["metadata"]["annotations"] = {"run.ai/reserve_for_gpu_index": gpu} if gpu else {}
    made["spec"]["schedulerName"] = "default-scheduler"
    return made


def shard(pool: str = "") -> Object:
    """What serves a node pool; without a name, the nodes without a label."""
    spec = {"partitionLabelValue": pool} if pool else {}
    return {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": pool or "default"}, "spec": spec}


API_VERSIONS = {"Job": "batch/v1", "ReplicationController": "v1", "MPIJob": "kubeflow.org/v2beta1", "RayCluster": "ray.io/v1"}
API_VERSIONS |= {"PyTorchJob": "kubeflow.org/v1"}


def workload(kind: str, name: str, spec: Object, status: Object, **more: Any) -> Object:
    """A workload whose pods are to share a GPU; ``labels`` of its pods, and fields of its metadata by name."""
    labels = {"kai.scheduler/queue": "ml"} | more.pop("labels", {})
    template = {
        "metadata": {"labels": labels, "annotations": {"gpu-fraction": "0.5"}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "busybox"}]},
    }
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": CREATED} | more
    return {
        "apiVersion": API_VERSIONS.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": template} | spec,
        "status": status,
    }


# A cluster in which nothing is wrong.
HEALTHY = (scheduler(), node(), queue("all"), queue("ml", "all"))
