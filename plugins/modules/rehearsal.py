#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.rehearsal."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal
short_description: Rehearse a change of KAI Scheduler on simulated nodes
version_added: 0.1.0
description:
  - Plays the same trace under KAI Scheduler as it is, O(baseline), and as it is to be, O(candidate), several rounds each, and returns a verdict.
    A trace says what a cluster has to schedule over a span of time. C(docs/reference/rehearsal.md) describes its format.
  - V(reject) where the candidate cannot be installed or played, or violates an invariant, also where the baseline violates it, too.
  - V(hold) where a measure is worse than O(thresholds) allow, in the median of the rounds, and worse in every round than in any of the
    baseline's.
  - V(promote) otherwise. RV(notes) lists what the trace did not exercise. The module does not fail where the candidate is not promoted.
  - For a cluster on which nothing else depends. Its nodes are simulated by KWOK, and nothing runs on them, so that no GPU is needed. What runs
    there stays where it is, because the simulated nodes have a taint, but KAI Scheduler sees their GPUs.
  - What could not be judged is refused before anything is changed.
  - Pods that KAI Scheduler evicts come back, as their controllers would have it. Rounds leave no pods, also when they fail.
  - The module ends two minutes after the controller has gone, such as one that was killed, and at once when another rehearsal begins in the
    cluster. The next one goes on with what is there.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) rehearses, and leaves KAI Scheduler as the candidate has it, and the simulated nodes, for the next rehearsal.
      - V(absent) removes the simulated nodes, the pods of rehearsals, and KAI Scheduler with its queues and CRDs. Where no rehearsal was, KAI
        Scheduler stays.
    type: str
    choices: [present, absent]
    default: present
  baseline:
    description:
      - KAI Scheduler as it is. Required with O(state=present).
    type: dict
    suboptions: &scheduler
      version:
        description: Version, such as V(v0.16.8).
        type: str
        required: true
      gpu_sharing:
        description: Whether pods may ask for fractions of a GPU. They may when omitted.
        type: bool
      values:
        description: Values for the chart.
        type: dict
      accept_hazards:
        description: Names of hazards of the release that are accepted, as M(kubegpu.tenancy.kai_scheduler) takes them. They have no part in
          the change.
        type: list
        elements: str
      queues:
        description: Tree of queues, as M(kubegpu.tenancy.kai_queues) takes it. Those of the trace when omitted or empty.
        type: list
        elements: dict
  candidate:
    description:
      - KAI Scheduler as it is to be. Required with O(state=present).
    type: dict
    suboptions: *scheduler
  trace:
    description:
      - The trace, as M(kubegpu.tenancy.rehearsal_record) returns it or as a file has it. When empty, O(pattern) makes one.
    type: dict
    default: {}
  pattern:
    description:
      - Pattern of the trace that is made, the same for the same O(seed).
      - V(research), a team's mix of notebooks on parts of GPUs, trials and trainings.
      - V(fractions), bursts of short pods with parts of GPUs.
      - V(gangs), trainings of two teams whose pods start together.
      - V(inference), services that never end beside short trials.
      - V(reclaim), a team uses what another one leaves, until that one comes back for its quota.
      - V(nearly_full), jobs of all sizes in a cluster that is nearly full.
    type: str
    choices: [research, fractions, gangs, inference, reclaim, nearly_full]
    default: research
  nodes:
    description:
      - Nodes of the trace that is made, each with C(count), C(gpus) and the other keys of a trace's nodes.
    type: list
    elements: dict
    default: [{count: 4, gpus: 8}]
  span:
    description:
      - Length of the trace that is made, in seconds, V(1) at least.
    type: float
    default: 600
  seed:
    description:
      - What the random choices of the trace that is made begin with.
    type: int
    default: 1
  rounds:
    description:
      - How many rounds to play under each of the two, V(1) at least. With one, nothing tells how much rounds differ by chance.
    type: int
    default: 3
  speed:
    description:
      - How many seconds of the trace pass in one second, V(0.001) at least. The scheduler itself is as fast as it is.
    type: float
    default: 10
  thresholds:
    description:
      - By how much the candidate may be worse, by measure, each with C(ratio), a part of the baseline's median, and C(amount), in the measure's
        own unit. Both add up. What is left out is as in C(docs/reference/rehearsal.md).
    type: dict
    default: {}
  chart_source:
    description:
      - Where the chart of KAI Scheduler comes from. When empty, upstream's location.
      - Otherwise a folder that holds C(CHART-VERSION.tgz), or the prefix of an OCI registry such as V(oci://registry.example/charts).
    type: str
    default: ""
  image:
    description:
      - Image of KWOK.
    type: str
    default: registry.k8s.io/kwok/kwok:v0.8.0
  step_timeout:
    description:
      - Seconds for each installation, for the queues, for the simulated nodes, and for each of the two removals, V(1) at least, waits included.
    type: int
    default: 300
  rounds_timeout:
    description:
      - Seconds for all rounds under one of the two, V(1) at least, waits included.
    type: int
    default: 3600
extends_documentation_fragment:
  - kubegpu.tenancy._progress
  - kubegpu.tenancy._helm_binary
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    support: full
    details: With O(state=present), no cluster is asked. A candidate is refused then that would be rejected because it cannot be played, as
      far as its release, its queues and the trace tell that.
  idempotent:
    support: partial
    details: Each run plays all rounds. What it leaves is the same.
notes:
  - O(kubeconfig) has to be the path of a file on the host where the module runs, because C(helm) reads it too.
seealso:
  - module: kubegpu.tenancy.rehearsal_record
  - module: kubegpu.tenancy.rehearsal_gate
"""

EXAMPLES = r"""
- name: Rehearse an upgrade with bursts of pods that share GPUs, and allow pods to wait for twice as long
  kubegpu.tenancy.rehearsal:
    kubeconfig: /etc/kubegpu/rehearsal/cluster.yml
    baseline: {version: v0.13.1, accept_hazards: [end-of-support, "#1103", "#1673"]}
    candidate: {version: v0.16.8}
    pattern: fractions
    thresholds:
      bind_p95: {ratio: 1}
  register: rehearsed

- name: Rehearse other queues with what was recorded
  kubegpu.tenancy.rehearsal:
    kubeconfig: /etc/kubegpu/rehearsal/cluster.yml
    trace: "{{ lookup('ansible.builtin.file', 'traces/monday.yml') | from_yaml }}"
    baseline: {version: v0.16.8}
    candidate: {version: v0.16.8, queues: "{{ queues }}"}
  register: rehearsed

- name: Go no further with what is not promoted
  ansible.builtin.assert:
    that: rehearsed.result == 'promote'
    fail_msg: "{{ rehearsed.reasons | join(' ') }}"

- name: Remove what rehearsals made
  kubegpu.tenancy.rehearsal:
    kubeconfig: /etc/kubegpu/rehearsal/cluster.yml
    state: absent
"""

RETURN = r"""
result:
  description: V(promote), V(hold) or V(reject).
  returned: with O(state=present), not in check mode
  type: str
  sample: reject
reasons:
  description: What it rests on, a sentence each.
  returned: with O(state=present), not in check mode
  type: list
  elements: str
  sample:
    - "The candidate violates reserved (every GPU that pods share is reserved) in 1 of 3 rounds: burst-0-4-0 has part of a GPU of
      simulated-0-1 that is not reserved: others can get it, too (12 s)."
notes:
  description: >-
    What only the baseline violates, what was not measured, what the trace did not exercise, and how the candidate groups pods in another way, which
    no rehearsal plays.
  returned: with O(state=present), not in check mode
  type: list
  elements: str
  sample: ["Not exercised by the trace: pods that start together."]
format:
  description: Version of the format of what is returned.
  returned: with O(state=present), not in check mode
  type: int
  sample: 1
at:
  description: When the verdict was made.
  returned: with O(state=present), not in check mode
  type: str
  sample: "2026-11-23T10:00:00+00:00"
change:
  description: What was rehearsed, by which M(kubegpu.tenancy.rehearsal_gate) knows it again.
  returned: with O(state=present)
  type: dict
  contains:
    name:
      description: A name that no other change has.
      type: str
      returned: always
    from:
      description: Version, digests of the chart's values, and queues of the baseline.
      type: dict
      returned: always
    to:
      description: Those of the candidate.
      type: dict
      returned: always
  sample:
    name: v0.13.1-to-v0.16.8-3f2a9c01d4
    from: {version: v0.13.1, values: {global: {registry: digest 5a8f1c02d3e4b697, gpuSharing: true}}, queues: {}}
    to: {version: v0.16.8, values: {global: {registry: digest 0b61d2f3a4957c8e, gpuSharing: true}}, queues: {}}
baseline:
  description: O(baseline) without its values.
  returned: with O(state=present)
  type: dict
  sample: {version: v0.13.1}
candidate:
  description: O(candidate) without its values.
  returned: with O(state=present)
  type: dict
  sample: {version: v0.16.8}
speed:
  description: O(speed).
  returned: with O(state=present)
  type: float
  sample: 10.0
trace:
  description: The trace, without what is as by default.
  returned: with O(state=present)
  type: dict
  sample:
    format: 1
    span: 600.0
    nodes: [{count: 4, gpus: 8}]
    queues: [{name: notebooks, gpu: {quota: 32, over_quota_weight: 1}}]
    priority_classes: {}
    workloads: [{name: burst-0-0, queue: notebooks, runs: 41.2, gpus: 0.5}]
comparisons:
  description: The measures.
  returned: with O(state=present), not in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Name of the measure.
      type: str
      returned: always
    baseline:
      description: Its value in each round of the baseline.
      type: list
      elements: float
      returned: always
    candidate:
      description: Its value in each round of the candidate.
      type: list
      elements: float
      returned: always
    allowed:
      description: The largest median of the candidate that is no worse.
      type: float
      returned: always
    worse:
      description: Whether the candidate is worse.
      type: bool
      returned: always
  sample:
    - {name: bind_p50, baseline: [1.2, 1.1, 1.2], candidate: [1.3, 1.2, 1.2], allowed: 3.44, worse: false}
rounds:
  description:
    - What came of each round, two lists by C(baseline) and C(candidate). The latter is empty where the candidate could not be played.
    - A round has C(violations), the invariants that did not hold, each with C(invariant), C(at) in seconds since the round began, and
      C(message); C(measures) by name, as C(docs/reference/rehearsal.md) lists them; C(samples) with GPUs by queue, pods C(bound) and C(waiting), at each
      observation; C(waits), the seconds that each pod waited for a node; and C(unbound), why each pod has no node at the end.
  returned: with O(state=present), not in check mode
  type: dict
  sample:
    baseline:
      - violations: []
        measures: {bind_p50: 1.2, bind_p95: 8.4, bind_p99: 9.9, unbound: 0.0, evicted: 0.0, idle_gpus: 1.2, fragmented_gpus: 0.4, unfairness: 0.2}
        samples: [{at: 0.4, gpus: {notebooks: 3.5}, bound: 7, waiting: 25}]
        waits: {burst-0-0-0: 0.4}
        unbound: {}
    candidate: []
steps:
  description: What was done on the cluster besides playing, in that order.
  returned: with O(state=present) not in check mode, and with O(state=absent)
  type: list
  elements: dict
  contains:
    step:
      description: What.
      type: str
      returned: always
    why:
      description: Why.
      type: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: outside of check mode
  sample:
    - {step: create 4 simulated nodes, why: the trace says which there are, seconds: 0.3}
superseded:
  description: That another rehearsal, or a removal, took the cluster meanwhile, so that what is there is not for this one to remove.
  returned: when it failed for that
  type: bool
  sample: true
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 412.0
"""

import typing as t

from ..module_utils._adapters.progress_file import ProgressFile
from ..module_utils._common.run import Result
from ..module_utils._common.values import utc_now
from ..module_utils._engine.rehearsal import Rehearsal, rehearse, remove
from ..module_utils._kernel.module import ClusterRun, run_module
from ..module_utils._rehearsal.patterns import PATTERNS
from ..module_utils._rehearsal.plan import IMAGE

SCHEDULER = {
    "version": {"type": "str", "required": True},
    "gpu_sharing": {"type": "bool"},
    "values": {"type": "dict"},
    "accept_hazards": {"type": "list", "elements": "str"},
    "queues": {"type": "list", "elements": "dict"},
}
ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "baseline": {"type": "dict", "options": SCHEDULER},
    "candidate": {"type": "dict", "options": SCHEDULER},
    "trace": {"type": "dict", "default": {}},
    "pattern": {"type": "str", "choices": list(PATTERNS), "default": "research"},
    "nodes": {"type": "list", "elements": "dict", "default": [{"count": 4, "gpus": 8}]},
    "span": {"type": "float", "default": 600},
    "seed": {"type": "int", "default": 1},
    "rounds": {"type": "int", "default": 3},
    "speed": {"type": "float", "default": 10},
    "thresholds": {"type": "dict", "default": {}},
    "chart_source": {"type": "str", "default": ""},
    "image": {"type": "str", "default": IMAGE},
    "progress": {"type": "path"},
    "helm_binary": {"type": "str", "default": "helm"},
    # Nothing bounds the whole, as an option "timeout" would.
    "step_timeout": {"type": "int", "default": 300},
    "rounds_timeout": {"type": "int", "default": 3600},
}
LEAST = {"span": 1, "rounds": 1, "speed": 0.001, "step_timeout": 1, "rounds_timeout": 1}


def reconcile(run: ClusterRun) -> Result:
    """Rehearse, or remove what rehearsals made."""
    params, progress = run.params, ProgressFile(run.params["progress"] or "")
    if params["state"] == "absent":
        result = remove(run.part, params, run.check_mode, progress)
    else:
        rehearsal = Rehearsal.of(params, utc_now().date(), whole=run.check_mode)
        # Before its cluster is made, there is none to ask.
        result = {"changed": True} | rehearsal.data() if run.check_mode else rehearse(run.part, params, rehearsal, progress)
    return result | {"seconds": run.deadline.elapsed()}


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST, required_if=[("state", "present", ("baseline", "candidate"))])


if __name__ == "__main__":
    main()
