# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The rehearsal of a change of KAI Scheduler: the format of a trace, what has to hold in every round, and what is measured.

A trace says what a cluster had to schedule: its nodes, queues and workloads over a span of time. It is played on simulated nodes
under a baseline and a candidate, several rounds each, and a verdict compares the rounds.
"""

from __future__ import annotations

from .._common.schema import Field, Fields

# Of the formats; a trace or a verdict of another one is refused.
FORMAT = 1
# Verdicts.
PROMOTE, HOLD, REJECT = "promote", "hold", "reject"

NODES: Fields = {
    "count": Field(int, "Number of nodes that are alike.", 1),
    "gpus": Field(int, "GPU devices of each.", 0),
    "gpu_memory": Field(int, "Memory of each GPU, in MiB, for workloads that ask for memory; 0 where it is not known.", 0),
    "cpu": Field(str, "Cores that each offers to pods.", "64"),
    "memory": Field(str, "Memory that each offers to pods.", "512Gi"),
    "labels": Field(dict, "Labels of each, as far as pods, topologies or KAI Scheduler look at them.", {}),
    "taints": Field(list, "Taints of each, as the API has them.", []),
}
WORKLOAD: Fields = {
    "name": Field(str, "What it is called in reports; its pods are <name>-0, <name>-1 and so on.", required=True),
    "queue": Field(str, "Queue of its pods, a leaf.", required=True),
    "arrives": Field(float, "When it is submitted, in seconds since the trace begins.", 0),
    "runs": Field(float, "For how long each of its pods runs, in seconds; 0 for pods that do not end.", 0),
    "pods": Field(int, "Number of its pods.", 1),
    "together": Field(int, "How many of its pods start together, or none.", 1),
    "group": Field(
        str, "Name of the group that its pods start with, for workloads that start together; its own where it is empty.", ""
    ),
    "topology": Field(str, "Name of the topology by which its pods are near each other, where they start together.", ""),
    "topology_required": Field(
        str, "Label of nodes, a level of that topology, of which all of its nodes have the same value.", ""
    ),
    "topology_preferred": Field(str, "Alike, where KAI Scheduler finds room for that.", ""),
    "gpus": Field(float, "GPU devices of each pod: whole ones, or a part of one, such as 0.5.", 0),
    "gpu_memory": Field(int, "Memory of a GPU that each pod asks for in place of gpus, in MiB.", 0),
    "cpu": Field(str, "Cores that each pod asks for.", "100m"),
    "memory": Field(str, "Memory that each pod asks for.", "128Mi"),
    "priority_class": Field(str, "Name of its PriorityClass; empty for KAI Scheduler's own choice.", ""),
    "node_selector": Field(dict, "Labels of the nodes that will do.", {}),
    "tolerations": Field(list, "Taints that it tolerates, as the API has them.", []),
}
TRACE: Fields = {
    "format": Field(int, f"Version of this format: {FORMAT}.", required=True),
    "span": Field(float, "Length, in seconds.", required=True),
    "nodes": Field(list, "Shapes of the nodes.", required=True, fields=NODES),
    "queues": Field(list, "Tree of queues, as the module kai_queues takes it.", required=True),
    "priority_classes": Field(dict, "Value of each PriorityClass that workloads name, beside KAI Scheduler's own.", {}),
    "topologies": Field(dict, "Of each Topology of KAI Scheduler the labels of nodes that are its levels, the widest first.", {}),
    "workloads": Field(list, "What has to be scheduled.", required=True, fields=WORKLOAD),
}

SCHEDULER: Fields = {
    "version": Field(str, "Version, such as v0.16.8.", required=True),
    "gpu_sharing": Field(bool, "Whether pods may ask for fractions of a GPU.", True),
    "values": Field(dict, "Values for the chart.", {}),
    "accept_hazards": Field(list, "Names of hazards of the release that are accepted.", []),
    "queues": Field(list, "Tree of queues, as the module kai_queues takes it; the trace's own where it is left out.", []),
}
CHANGE: Fields = {
    "name": Field(str, "Its name, which begins with both versions.", required=True),
    "from": Field(dict, "KAI Scheduler as it was: version, values of its chart, queues by name.", required=True),
    "to": Field(dict, "KAI Scheduler as it was to be, alike.", required=True),
}
VERDICT: Fields = {
    "format": Field(int, f"Version of this format: {FORMAT}.", required=True),
    "result": Field(str, "What came of the rehearsal.", required=True, choices=(PROMOTE, HOLD, REJECT)),
    "reasons": Field(list, "What it rests on, a sentence each.", required=True),
    "at": Field(str, "When, with a time zone.", required=True),
    "change": Field(dict, "What was rehearsed.", required=True, fields=CHANGE),
}

# Where a rehearsal puts its pods, and what plays the kubelets of its nodes.
NAMESPACE, KWOK_NAMESPACE = NAMESPACES = ("kubegpu-rehearsal", "kubegpu-rehearsal-kwok")
# Label of the pods of a workload, with its name.
WORKLOAD_LABEL = "rehearsal.kubegpu.tenancy/workload"
# Label of a pod, with the name under which it was submitted: one that is made again has another name, as from a Job or a ReplicaSet, because
# KAI's scheduler looks BindRequests up by the pod's name, and takes one that is left for the new pod's (pkg/scheduler/api/bindrequest_info
# of v0.13.1). It would wait for that, and nothing says so.
POD_LABEL = "rehearsal.kubegpu.tenancy/pod"
# Annotation of pods that end: after how long, as Go writes a duration.
RUNS_NOTE = "rehearsal.kubegpu.tenancy/runs"
# On the namespace: which run has the cluster.
CLAIM_NOTE = "rehearsal.kubegpu.tenancy/claim"
# Label and taint of the simulated nodes: the cluster's own pods stay away from them, and those of a trace from the others.
SIMULATED = "rehearsal.kubegpu.tenancy/simulated"

# Reason of the event by which KAI's scheduler says of a PodGroup that it evicts a pod of it: in all releases from v0.7.11 to v0.17.0
# (pkg/scheduler/cache/status_updater/default_status_updater.go).
EVICT_REASON = "Evict"

# What has to hold in every round, and for how many seconds it may not before that counts: binding takes several writes, and
# a listing of the API shows some of them.
ONE_OWNER, RESERVED, WHOLE_GROUPS, WITHIN_LIMITS, PLACEMENT, KEPT, EXPLAINED = INVARIANTS = (
    "one_owner",
    "reserved",
    "whole_groups",
    "within_limits",
    "placement",
    "kept",
    "explained",
)
MEANINGS = {
    ONE_OWNER: "no GPU has two owners",
    RESERVED: "every GPU that pods share is reserved",
    WHOLE_GROUPS: "no group is placed in part",
    WITHIN_LIMITS: "no queue is above its limit",
    PLACEMENT: "no pod is on a node that it did not ask for",
    KEPT: "no pod at work is ended, but by the scheduler's decision",
    EXPLAINED: "every pod is placed, or says why not",
}
GRACE = {ONE_OWNER: 5.0, RESERVED: 20.0, WHOLE_GROUPS: 20.0, WITHIN_LIMITS: 5.0, PLACEMENT: 0.0, EXPLAINED: 10.0}

THRESHOLD: Fields = {
    "ratio": Field(float, "By what part of the baseline the candidate may be worse: 0.2 for a fifth.", 0.0),
    "amount": Field(float, "By how much it may be worse in any case, in the measure's own unit.", 0.0),
}
# Measures of a round, of which less is better, and by how much a candidate may be worse.
THRESHOLDS: dict[str, dict[str, float]] = {
    # Seconds from submission to a node, of the pods that got one.
    "bind_p50": {"ratio": 0.2, "amount": 2.0},
    "bind_p95": {"ratio": 0.2, "amount": 5.0},
    "bind_p99": {"ratio": 0.3, "amount": 10.0},
    # Pods that have no node when the round ends, and pods that lost theirs.
    "unbound": {"ratio": 0.0, "amount": 0.0},
    "evicted": {"ratio": 0.2, "amount": 2.0},
    # GPU devices, on average over the round: free while pods wait, and of those, on nodes of which others are taken. Between rounds of the
    # same release on 16 GPUs they differed by two (docs/contributing/benchmark.md).
    "idle_gpus": {"ratio": 0.1, "amount": 2.0},
    "fragmented_gpus": {"ratio": 0.1, "amount": 2.0},
    # GPU devices that a queue is away from its fair share, on average over queues and the round.
    "unfairness": {"ratio": 0.2, "amount": 1.0},
    # Kinds of errors in KAI Scheduler's own logs.
    "log_errors": {"ratio": 0.5, "amount": 5.0},
    # Of KAI's scheduler: milliseconds of its cycles, 95 of 100 of them; cores on average; MiB at most.
    "cycle_p95": {"ratio": 0.5, "amount": 200.0},
    "scheduler_cpu": {"ratio": 0.5, "amount": 0.2},
    "scheduler_memory": {"ratio": 0.5, "amount": 200.0},
}
