# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan what a rehearsal has on its cluster: simulated nodes, what simulates them, and the pods of a trace. Pure.

KWOK (sigs.k8s.io/kwok) plays the kubelets: it moves nodes and pods through stages, without running anything. Its stages and their
templates are documented at kwok.sigs.k8s.io/docs/user/stages-configuration; the ones here are for v0.8.0.
"""

from __future__ import annotations

import json
import math
import types
import typing as t

from .._common.names import (
    FRACTION_NOTE,
    GPU_MEMORY_LABEL,
    GPU_RESOURCE,
    HOST_SCHEDULER_LABEL,
    MEMORY_NOTE,
    POD_GROUP,
    POD_GROUP_NOTE,
    QUEUE_LABEL,
    RESERVATION_APP,
    RESERVED_GPU_NOTE,
    TOPOLOGY,
)
from .._common.ownership import OWNED_LABELS
from .._common.values import JsonObject
from .facts import KWOK_NAMESPACE, NAMESPACE, POD_LABEL, RUNS_NOTE, SIMULATED, WORKLOAD_LABEL
from .model import Trace, Workload

PRIORITY_CLASS = ("scheduling.k8s.io/v1", "PriorityClass")

NAME = "kwok"
IMAGE = "registry.k8s.io/kwok/kwok:v0.8.0"
# What the names of simulated nodes begin with.
NODES_NAME = "simulated-"
# Pods that a node takes; KAI Scheduler's reservations count, too.
MOST_PODS = 500
# A node counts as lost when it has not renewed its lease for so long (kube-controller-manager, node-monitor-grace-period).
LEASE_SECONDS = 40
# Where KWOK says whether it is well.
PORT = 10247

_TOLERATION = {"key": SIMULATED, "operator": "Exists"}


# --- what simulates ----------------------------------------------------------------------------------------------


def simulator(image: str = IMAGE) -> list[JsonObject]:
    """Return the namespaces of a rehearsal, and KWOK's objects."""
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": KWOK_NAMESPACE}
    rules = [
        _rule("", ["nodes", "pods"], ["get", "list", "watch", "patch", "update", "delete"]),
        _rule("", ["nodes/status", "pods/status"], ["patch", "update"]),
        _rule("", ["events"], ["create", "patch", "update"]),
        _rule("coordination.k8s.io", ["leases"], ["create", "get", "list", "watch", "patch", "update"]),
    ]
    stages_file = "\n---\n".join(json.dumps(stage) for stage in stages())
    return [
        # For a KAI Scheduler that tenants share, and that looks at such namespaces alone.
        _owned("v1", "Namespace", NAMESPACE, labels={HOST_SCHEDULER_LABEL: "kai"}),
        _owned("v1", "Namespace", KWOK_NAMESPACE),
        _owned("v1", "ServiceAccount", NAME, KWOK_NAMESPACE),
        _owned("rbac.authorization.k8s.io/v1", "ClusterRole", KWOK_NAMESPACE) | {"rules": rules},
        _owned("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", KWOK_NAMESPACE)
        | {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": KWOK_NAMESPACE},
            "subjects": [account],
        },
        _owned("v1", "ConfigMap", NAME, KWOK_NAMESPACE) | {"data": {"kwok.yaml": stages_file}},
        _deployment(image),
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _owned(
    api_version: str, kind: str, name: str, namespace: str | None = None, labels: t.Mapping[str, str] = types.MappingProxyType({})
) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": {**OWNED_LABELS, **labels}} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _deployment(image: str) -> JsonObject:
    args = [
        "--config=/etc/kwok/kwok.yaml",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={SIMULATED}=true",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        "--enable-crds=",
        # Without it, or a port in a configuration of its own, nothing answers the probe (pkg/kwok/cmd/root.go, startServer).
        f"--server-address=0.0.0.0:{PORT}",
    ]
    container = {
        "name": NAME,
        "image": image,
        "args": args,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 2},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/kwok", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": NAME,
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": NAME}}],
    }
    labels = {"app": NAME}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return _owned("apps/v1", "Deployment", NAME, KWOK_NAMESPACE) | {
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    }


def stages() -> list[JsonObject]:
    """Return KWOK's stages: nodes become ready; pods run, end when they are to, and go; reservations say which GPU they have."""
    alive, going = _where(".metadata.deletionTimestamp", "DoesNotExist"), _where(".metadata.deletionTimestamp", "Exists")
    running = _where(".status.phase", "In", "Running")
    note = f'.metadata.annotations["{RESERVED_GPU_NOTE}"]'
    runs = f'.metadata.annotations["{RUNS_NOTE}"]'
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    return [
        _stage("node-ready", "Node", [_where(ready, "NotIn", "True")], {"statusTemplate": _NODE_READY}),
        _stage("pod-runs", "Pod", [alive, _where(".status.phase", "In", "Pending")], {"statusTemplate": _POD_RUNS}),
        _stage(
            "pod-ends",
            "Pod",
            [alive, running, _where(runs, "Exists")],
            {"statusTemplate": _POD_ENDS},
            {"durationMilliseconds": 1000, "durationFrom": {"expressionFrom": runs}},
        ),
        _stage("pod-goes", "Pod", [going], {"finalizers": {"empty": True}, "delete": True}),
        _stage(
            "gpu-reserved",
            "Pod",
            [alive, running, _where(".metadata.labels.app", "In", RESERVATION_APP), _where(note, "DoesNotExist")],
            {"patches": [{"root": "metadata", "template": _RESERVED, "type": "merge"}]},
        ),
    ]


def _where(key: str, operator: str, *values: str) -> JsonObject:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def _stage(name: str, kind: str, selector: list[JsonObject], after: JsonObject, delay: JsonObject | None = None) -> JsonObject:
    spec = {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": {"matchExpressions": selector}, "next": after}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": spec | ({"delay": delay} if delay else {}),
    }


_NODE_READY = """\
conditions:
- type: Ready
  status: "True"
  reason: Simulated
  message: KWOK plays the kubelet
  lastHeartbeatTime: {{ Now | Quote }}
  lastTransitionTime: {{ Now | Quote }}
"""
_POD_RUNS = """\
phase: Running
startTime: {{ Now | Quote }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ Now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ Now | Quote }}
{{ end }}
"""
_POD_ENDS = """\
phase: Succeeded
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ Now | Quote }}
      finishedAt: {{ Now | Quote }}
{{ end }}
"""
_RESERVED = f"""\
annotations:
  {RESERVED_GPU_NOTE}: GPU-{{{{ .metadata.uid }}}}
"""


# --- what is scheduled, and where --------------------------------------------------------------------------------


def nodes(trace: Trace) -> list[JsonObject]:
    """Return the trace's nodes, as objects of the API."""
    found = []
    for index, shape in enumerate(trace.nodes):
        amounts = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(MOST_PODS)}
        amounts |= {GPU_RESOURCE: str(shape.gpus)} if shape.gpus else {}
        memory = {GPU_MEMORY_LABEL: str(shape.gpu_memory)} if shape.gpu_memory else {}
        for number in range(shape.count):
            item = _owned("v1", "Node", f"{NODES_NAME}{index}-{number}")
            item["metadata"]["labels"] |= (
                shape.labels | memory | {SIMULATED: "true", "kubernetes.io/hostname": item["metadata"]["name"]}
            )
            item["metadata"]["annotations"] = {"kwok.x-k8s.io/node": "fake"}
            taints = [*shape.taints, {"key": SIMULATED, "value": "true", "effect": "NoSchedule"}]
            found.append(item | {"spec": {"taints": taints}, "status": {"capacity": amounts, "allocatable": amounts}})
    return found


def shared_objects(trace: Trace) -> list[JsonObject]:
    """Return what the trace's workloads refer to: its Topologies and PriorityClasses."""
    found = []
    for name, labels in trace.topologies.items():
        levels = [{"nodeLabel": label} for label in labels]
        found.append(_owned(*TOPOLOGY, name) | {"spec": {"levels": levels}})
    for name, value in trace.priority_classes.items():
        found.append(_owned(*PRIORITY_CLASS, name) | {"value": value})
    for item in found:
        item["metadata"]["labels"][SIMULATED] = "true"
    return found


def group(workload: Workload, together: int) -> JsonObject | None:
    """Return the PodGroup of a workload; None for one whose pods start by themselves, which KAI Scheduler groups itself.

    :arg together: how many pods of its group start together, or none.
    """
    if together < 2:
        return None
    api_version, kind = POD_GROUP
    spec: JsonObject = {"minMember": together, "queue": workload.queue}
    spec |= {"priorityClassName": workload.priority_class} if workload.priority_class else {}
    if workload.topology:
        levels = {"requiredTopologyLevel": workload.topology_required, "preferredTopologyLevel": workload.topology_preferred}
        spec["topologyConstraint"] = {"topology": workload.topology} | {key: level for key, level in levels.items() if level}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": workload.group_name, "namespace": NAMESPACE},
        "spec": spec,
    }


def pods(workload: Workload, together: int, scheduler: str, speed: float = 1) -> list[JsonObject]:
    """Return the pods of a workload.

    :arg together: how many pods of its group start together, or none.
    :arg scheduler: the name by which they ask for KAI Scheduler.
    :arg speed: how many seconds of the trace pass in one.
    """
    labels = {WORKLOAD_LABEL: workload.name, QUEUE_LABEL: workload.queue}
    # As a label, KAI Scheduler honours the class of a pod without owner.
    labels |= {"priorityClassName": workload.priority_class} if workload.priority_class else {}
    notes = {POD_GROUP_NOTE: workload.group_name} if together > 1 else {}
    if workload.runs:
        notes[RUNS_NOTE] = f"{max(1, round(workload.runs / speed * 1000))}ms"
    requests = {"cpu": workload.cpu, "memory": workload.memory}
    limits: JsonObject = {}
    if workload.gpu_memory:
        notes[MEMORY_NOTE] = str(workload.gpu_memory)
    elif 0 < workload.gpus < 1:
        notes[FRACTION_NOTE] = str(workload.gpus)
    elif workload.gpus:
        limits[GPU_RESOURCE] = str(math.floor(workload.gpus))
    spec = {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "nodeSelector": workload.node_selector | {SIMULATED: "true"},
        "tolerations": [*workload.tolerations, _TOLERATION],
        "containers": [{"name": "work", "image": "simulated", "resources": {"requests": requests, "limits": limits}}],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels | {POD_LABEL: name}, "annotations": dict(notes)},
            "spec": spec,
        }
        for name in workload.pod_names
    ]


def made_again(pod: JsonObject, times: int) -> JsonObject:
    """Return a pod under another name.

    :arg pod: as it was submitted.
    :arg times: how often it was made again, this time included.
    """
    return pod | {"metadata": pod["metadata"] | {"name": f"{pod['metadata']['name']}-again-{times}"}}
