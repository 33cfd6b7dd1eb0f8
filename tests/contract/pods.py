# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods of a tenant, and what the policies refuse of them, whoever evaluates the policies."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_SCHEDULER_NAME
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import MARKER_LABEL

TENANT = f"contract-{secrets.token_hex(3)}"
QUEUE = "kai.scheduler/queue"
OWN, OTHER = {QUEUE: "vision"}, {QUEUE: "speech"}
FOREIGN = f"Set the label {QUEUE} to one of those of tenant {TENANT}: vision."
BY_KAI = f"Pods of tenant {TENANT} with GPUs are placed by kai-scheduler"
KAIS = "The labels runai-gpu-group, kai.scheduler/node-pool are KAI Scheduler's own."
DEVICES, VOID = "NVIDIA_VISIBLE_DEVICES", [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
NAMED, OPEN = f"{DEVICES} is void or none, or left out", f"With a runtimeClassName, set {DEVICES} to void"
SHARED_MAP = {"name": DEVICES, "valueFrom": {"configMapKeyRef": {"name": "work-x-default-x-a-ab1-shared-gpu-0", "key": DEVICES}}}
OWN_MAP = {"name": DEVICES, "valueFrom": {"configMapKeyRef": {"name": "mine-x-default-x-a", "key": DEVICES}}}
ADDED = "mirror.gcr.io/library/alpine:3.20"
FORM = "gpu-fraction is a decimal above 0 and below 1 such as 0.5, gpu-memory whole MiB such as 8000"
COUNTED = "No queue and no quota of this tenant counts deviceclass.resource.kubernetes.io/*"
LATER = "What part of a GPU a pod asks for is said when it is created."

# Labels, annotations and specification of a pod, and what its creation is refused for; empty where it is let in.
CREATED: dict[str, tuple[dict[str, str], dict[str, str], dict[str, Any], str]] = {
    "a GPU in its own queue": (OWN, {}, {"gpus": 1}, ""),
    "a GPU in another queue": (OTHER, {}, {"gpus": 1}, f"Queue speech is not the tenant's. {FOREIGN}"),
    "a GPU in no queue": ({}, {}, {"gpus": 1}, f"The pod names no queue. {FOREIGN}"),
    "a CPU in another queue": (OTHER, {}, {}, FOREIGN),
    "a CPU by the default scheduler": ({}, {}, {"scheduler": "default-scheduler"}, ""),
    "a GPU by the default scheduler": ({}, {}, {"scheduler": "default-scheduler", "gpus": 1}, BY_KAI),
    "a GPU of an init container": ({}, {}, {"scheduler": "default-scheduler", "init_gpus": 1}, BY_KAI),
    "a MIG slice": ({}, {}, {"scheduler": "default-scheduler", "gpus": 1, "resource": "nvidia.com/mig-1g.5gb"}, BY_KAI),
    "devices by the name of a class": (
        OWN,
        {},
        {"scheduler": "default-scheduler", "gpus": 1, "resource": "deviceclass.resource.kubernetes.io/gpu.nvidia.com"},
        COUNTED,
    ),
    "a claim": ({}, {}, {"scheduler": "default-scheduler", "claims": ["gpu"]}, BY_KAI),
    "a fraction in its own queue": (OWN, {"gpu-fraction": "0.5"}, {}, ""),
    "a fraction in another queue": (OTHER, {"gpu-fraction": "0.5"}, {}, FOREIGN),
    "a fraction without a digit before the point": (OWN, {"gpu-fraction": ".25"}, {}, ""),
    "parts of two GPUs": (OWN, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, {}, ""),
    "memory of a GPU": (OWN, {"gpu-memory": "2000"}, {}, ""),
    "another annotation": (OWN, {"note": "NaN"}, {}, ""),
    "a fraction that is no number": (OWN, {"gpu-fraction": "NaN"}, {}, FORM),
    "a fraction in hexadecimals": (OWN, {"gpu-fraction": "0x1p-1"}, {}, FORM),
    "a fraction with an exponent": (OWN, {"gpu-fraction": "5e-1"}, {}, FORM),
    "a fraction of nothing": (OWN, {"gpu-fraction": "0.00"}, {}, FORM),
    "a fraction that is all of it": (OWN, {"gpu-fraction": "1"}, {}, FORM),
    "an empty fraction": (OWN, {"gpu-fraction": ""}, {}, FORM),
    "memory with a unit": (OWN, {"gpu-memory": "2Gi"}, {}, FORM),
    "part of a MiB": (OWN, {"gpu-memory": "0.5"}, {}, FORM),
    "no memory": (OWN, {"gpu-memory": "0"}, {}, FORM),
    "parts of part of a GPU": (OWN, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1.5"}, {}, FORM),
    "parts of no GPU": (OWN, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, {}, FORM),
    "memory by the default scheduler": (OWN, {"gpu-memory": "2000"}, {"scheduler": "default-scheduler"}, BY_KAI),
    "a GPU on a node of its choice": (OWN, {}, {"gpus": 1, "node": "n1"}, "names no node itself"),
    "a place among pods that share a GPU": (OWN | {"runai-gpu-group": "x"}, {}, {}, KAIS),
    "a place among pods that share several": (OWN | {"runai-gpu-group/x": "y"}, {}, {}, KAIS),
    "another pool of nodes": (OWN | {"kai.scheduler/node-pool": "z"}, {}, {"gpus": 1}, KAIS),
    "all devices": (OWN, {}, {"gpus": 1, "env": [{"name": DEVICES, "value": "all"}]}, NAMED),
    "all devices without a GPU": (OWN, {}, {"env": [{"name": "A", "value": "b"}, {"name": DEVICES, "value": "all"}]}, NAMED),
    "devices by a ConfigMap of its own": (OWN, {"gpu-fraction": "0.5"}, {"env": [OWN_MAP]}, NAMED),
    "devices by a ConfigMap of KAI Scheduler": (OWN, {"gpu-fraction": "0.5"}, {"env": [SHARED_MAP], "runtime": TENANT}, ""),
    "what its image says": (OWN, {}, {"runtime": TENANT}, OPEN),
    "no devices": (OWN, {}, {"runtime": TENANT, "env": VOID}, ""),
    "what vCluster adds": (OWN, {}, {"runtime": TENANT, "image": ADDED}, ""),
    "what vCluster adds, with variables from elsewhere": (
        OWN,
        {},
        {"runtime": TENANT, "image": ADDED, "env_from": [{"secretRef": {"name": "s"}}]},
        OPEN,
    ),
    "another registry's image of that name": (OWN, {}, {"runtime": TENANT, "image": f"registry.example/{ADDED}"}, OPEN),
    "a GPU and NVIDIA's runtime": (OWN, {}, {"runtime": TENANT, "gpus": 1}, ""),
    "variables from elsewhere with a GPU": (OWN, {}, {"gpus": 1, "env_from": [{"secretRef": {"name": "s"}}]}, OPEN),
    "variables with half of the name": (
        OWN,
        {},
        {"gpus": 1, "env_from": [{"prefix": "NVIDIA_", "secretRef": {"name": "s"}}]},
        OPEN,
    ),
    "variables with a prefix": (OWN, {}, {"gpus": 1, "env_from": [{"prefix": "KEY_", "secretRef": {"name": "s"}}]}, ""),
    "variables from elsewhere without a GPU": (
        OWN,
        {},
        {"env": VOID, "runtime": TENANT, "env_from": [{"secretRef": {"name": "s"}}]},
        "",
    ),
    "devices by an annotation": (OWN, {"cdi.k8s.io/a": "nvidia.com/gpu=all"}, {}, "name devices past the scheduler"),
    "a third scheduler": ({}, {}, {"scheduler": "volcano"}, "schedulerName volcano is none that tenant"),
}

# Of those above, what is asked of a scheduler that the tenant does not share, and of its queues, is its own business.
ITS_OWN = {
    name: ("" if refusal and not refusal.startswith((COUNTED, NAMED, OPEN, "name devices")) else refusal)
    for name, (*_asked, refusal) in CREATED.items()
}
# No client but the tenant could have written the ConfigMap.
ITS_OWN["devices by a ConfigMap of KAI Scheduler"] = NAMED

# Labels of Secrets and ConfigMaps, and whether the policy for records of Helm refuses them.
RECORD = {"owner": "helm", "name": "web", "status": "deployed", "version": "1000"}
SYNCED = {MARKER_LABEL: "web"}
RECORDS = [(SYNCED | RECORD, True), (SYNCED | {"owner": "HELM"}, True), (RECORD, False), (SYNCED, False), ({}, False)]


def pod(
    labels: dict[str, str],
    notes: dict[str, str],
    namespace: str,
    *,
    scheduler: str = KAI_SCHEDULER_NAME,
    gpus: int = 0,
    init_gpus: int = 0,
    resource: str = "nvidia.com/gpu",
    node: str = "",
    claims: tuple[str, ...] = (),
    env: Sequence[dict[str, Any]] = (),
    env_from: Sequence[dict[str, Any]] = (),
    runtime: str = "",
    image: str = "none",
) -> dict[str, Any]:
    """Return a pod that no scheduler places: no node has its label."""
    spec: dict[str, Any] = {"schedulerName": scheduler, "nodeSelector": {"kubegpu.example/nowhere": "true"}}
    # As an API server hands it on: without empty lists.
    variables = {name: list(given) for name, given in (("env", env), ("envFrom", env_from)) if given}
    spec["containers"] = [{"name": "c", "image": image, "resources": {"limits": {resource: gpus} if gpus else {}}} | variables]
    if runtime:
        spec["runtimeClassName"] = runtime
    if init_gpus:
        spec["initContainers"] = [{"name": "i", "image": "none", "resources": {"limits": {resource: init_gpus}}}]
    if node:
        spec["nodeName"] = node
    if claims:
        spec["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    metadata = {"generateName": "contract-", "namespace": namespace, "labels": labels, "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
