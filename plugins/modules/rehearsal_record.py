#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.rehearsal_record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_record
short_description: Record what a cluster has to schedule, as a trace for rehearsals
version_added: 0.1.0
description:
  - Observes a cluster for O(seconds), and returns what KAI Scheduler has to schedule there, for M(kubegpu.tenancy.rehearsal) to play.
  - It only reads. Nodes, pods, queues, priority classes and KAI Scheduler's groups of pods are listed, and its Helm release is read.
  - Of a pod it keeps its queue, requests, node selector, tolerations and priority class (that of the label C(priorityClassName) before its
    own), when it came, for how long it ran, with which others it starts, and in which part of a topology. Images, commands, variables and
    volumes are not kept.
  - Namespaces and names of pods become digests, unless O(plain_names) is set. A digest confirms a guess.
  - Users' own words are kept in queues (their names and C(displayName), as a verdict is about them), in names of priority classes and
    topologies, and in keys and values of node selectors, tolerations and taints. So a pod that is bound to
    C(kubernetes.io/hostname) keeps the name of that host.
  - Labels of nodes are kept where they begin with C(nvidia.com/), C(topology.kubernetes.io/) or C(node.kubernetes.io/instance-type), and where
    a pod's node selector or a topology names them. Other labels, and annotations, are not.
  - Pods that were there before are submitted at the trace's beginning. Pods that still run at the end do not end in the trace.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  seconds:
    description:
      - For how long to observe, in seconds. V(0) takes what is there at the moment.
    type: int
    default: 0
  interval:
    description:
      - Seconds between two listings, V(1) at least. Pods that come and go between two are not seen.
    type: int
    default: 15
  plain_names:
    description:
      - Whether to keep namespaces and names of pods, so that reports name work as people know it.
    type: bool
    default: false
  scheduler_name:
    description:
      - Name by which pods ask for KAI Scheduler. Other pods are left out.
    type: str
    default: kai-scheduler
extends_documentation_fragment:
  - kubegpu.tenancy._progress
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
notes:
  - O(kubeconfig) has to be the path of a file on the host where the module runs, because C(helm) reads it too.
seealso:
  - module: kubegpu.tenancy.rehearsal
"""

EXAMPLES = r"""
- name: Record a tenant's work for a day
  kubegpu.tenancy.rehearsal_record:
    kubeconfig: /etc/kubegpu/dc1/tenants/team-ml.yml
    seconds: 86400
  async: 90000
  poll: 60
  # What KAI Scheduler's chart was given may be secret.
  no_log: true
  register: recorded

- name: Keep it in git
  ansible.builtin.copy:
    content: "{{ recorded.trace | ansible.builtin.to_nice_yaml(sort_keys=false) }}"
    dest: traces/monday.yml
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
trace:
  description: The trace, without what is as by default.
  returned: success
  type: dict
  sample:
    format: 1
    span: 86400.0
    nodes: [{count: 4, gpus: 8, gpu_memory: 143771, cpu: '190', memory: 2000Gi}]
    queues: [{name: training, gpu: {quota: 24}}]
    priority_classes: {}
    workloads: [{name: w3f0c1d2a4b, queue: training, arrives: 12.0, runs: 3600.0, pods: 4, together: 4, gpus: 8}]
pods:
  description: Number of its pods.
  returned: success
  type: int
  sample: 4
scheduler:
  description:
    - KAI Scheduler as it is, as M(kubegpu.tenancy.rehearsal) takes it for C(baseline), with what is known to go wrong with it accepted.
      Empty where Helm knows no release of it.
    - Its C(values) may be secret. Where there are any, Ansible does not show the result, as with C(no_log). A task with C(async) has to set
      C(no_log) itself.
  returned: success
  type: dict
  sample:
    version: v0.13.1
    gpu_sharing: true
    values: {global: {registry: ghcr.io/nvidia/kai-scheduler, gpuSharing: true}}
    accept_hazards: ["#1103"]
"""

from ..module_utils._adapters.progress_file import ProgressFile
from ..module_utils._common.names import KAI_SCHEDULER_NAME
from ..module_utils._common.run import Result, Run
from ..module_utils._common.values import utc_now
from ..module_utils._kai.lifecycle import helm_release
from ..module_utils._kai.validation import hazards_on, release
from ..module_utils._kai.values import shares_gpus
from ..module_utils._kernel.module import run_module
from ..module_utils._rehearsal.lifecycle import record

ARGUMENT_SPEC = {
    "seconds": {"type": "int", "default": 0},
    "interval": {"type": "int", "default": 15},
    "plain_names": {"type": "bool", "default": False},
    "scheduler_name": {"type": "str", "default": KAI_SCHEDULER_NAME},
    "progress": {"type": "path"},
    "helm_binary": {"type": "str", "default": "helm"},
}
LEAST = {"seconds": 0, "interval": 1}


def reconcile(run: Run) -> Result:
    """Observe the cluster, and return its trace and its scheduler."""
    with ProgressFile(run.params["progress"] or "").during("record", "Record what is scheduled"):
        trace = record(run, *(run.params[name] for name in ("scheduler_name", "seconds", "interval", "plain_names")))
    return {"changed": False, "trace": trace.data(), "pods": trace.pods, "scheduler": _scheduler(run)}


def _scheduler(run: Run) -> Result:
    """Return KAI Scheduler as it is; empty where Helm knows no release of it."""
    installed = helm_release(run).inspect()
    if installed is None:
        return {}
    known = release(installed.chart_version)
    today = utc_now().date()
    return {
        "version": known.version,
        "gpu_sharing": shares_gpus(installed.values, known),
        "values": installed.values,
        "accept_hazards": [hazard.name for hazard in hazards_on(known, today)],
    }


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
