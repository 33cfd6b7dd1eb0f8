#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.rehearsal_rounds."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_rounds
short_description: Play rounds of a trace under the scheduler that a cluster has
version_added: 0.1.0
description:
  - Plays a trace on the simulated nodes of M(kubegpu.tenancy.rehearsal_cluster), several rounds, each from a clean state, and returns for each
    what did not hold and what it measured, for M(kubegpu.tenancy.rehearsal_verdict) to compare.
  - KAI Scheduler is there already, with the trace's queues. Pods that it evicts come back, as their controllers would have it.
  - Leaves no pods, also when it fails. A round that was killed is cleared by the next one.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  trace:
    description:
      - The trace, as M(kubegpu.tenancy.rehearsal_trace) and M(kubegpu.tenancy.rehearsal_record) return it.
    type: dict
    required: true
  rounds:
    description:
      - How many rounds to play, V(1) at least. With one, nothing tells how much rounds differ by chance.
    type: int
    default: 3
  speed:
    description:
      - How many seconds of the trace pass in one second, V(0.001) at least. The scheduler itself is as fast as it is.
    type: float
    default: 1
  scheduler_name:
    description:
      - Name by which pods ask for KAI Scheduler.
    type: str
    default: kai-scheduler
  timeout:
    description:
      - Seconds for all rounds, waits included.
    type: int
    default: 3600
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    support: full
    details: Plays nothing then, and returns no rounds.
  diff_mode:
    support: none
    details: The module leaves nothing behind.
seealso:
  - module: kubegpu.tenancy.rehearsal_cluster
  - module: kubegpu.tenancy.rehearsal_verdict
"""

EXAMPLES = r"""
- name: Play three rounds, ten times as fast as they were recorded
  kubegpu.tenancy.rehearsal_rounds:
    kubeconfig: /etc/kubegpu/rehearsal/cluster.yml
    trace: "{{ recorded.trace }}"
    speed: 10
  register: baseline
"""

RETURN = r"""
rounds:
  description: What came of each round.
  returned: success
  type: list
  elements: dict
  contains:
    violations:
      description: Invariants that did not hold, each with C(invariant), C(at) in seconds since the round began, and C(message).
      type: list
      elements: dict
      returned: always
    measures:
      description: Measures by name, as C(docs/rehearsal.md) lists them.
      type: dict
      returned: always
    samples:
      description: C(gpus) by queue, pods C(bound) and C(waiting), at each observation, with C(at) in seconds.
      type: list
      elements: dict
      returned: always
    waits:
      description: Seconds that each pod waited for a node, by its name.
      type: dict
      returned: always
    unbound:
      description: Why each pod has no node at the end, by its name.
      type: dict
      returned: always
  sample:
    - violations: []
      measures: {bind_p50: 1.2, bind_p95: 8.4, bind_p99: 9.9, unbound: 0.0, evicted: 0.0, idle_gpus: 1.2, fragmented_gpus: 0.4, unfairness: 0.2}
      samples: [{at: 0.4, gpus: {notebooks: 3.5}, bound: 7, waiting: 25}]
      waits: {burst-0-0-0: 0.4}
      unbound: {}
seconds:
  description: How long all rounds took.
  returned: success
  type: float
  sample: 131.0
"""

from ..module_utils._common.names import KAI_SCHEDULER_NAME
from ..module_utils._common.run import Result, Run
from ..module_utils._kernel.module import run_module
from ..module_utils._rehearsal.lifecycle import play
from ..module_utils._rehearsal.validation import parse

ARGUMENT_SPEC = {
    "trace": {"type": "dict", "required": True},
    "rounds": {"type": "int", "default": 3},
    "speed": {"type": "float", "default": 1},
    "scheduler_name": {"type": "str", "default": KAI_SCHEDULER_NAME},
    "timeout": {"type": "int", "default": 3600},
}
LEAST = {"rounds": 1, "speed": 0.001}


def reconcile(run: Run) -> Result:
    params = run.params
    trace = parse(params["trace"])
    # Before a cluster was made, check mode has none to look at.
    played = [] if run.check_mode else play(run, trace, params["scheduler_name"], params["rounds"], params["speed"])
    return {"changed": False, "rounds": [each.data() for each in played], "seconds": run.deadline.elapsed()}


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
