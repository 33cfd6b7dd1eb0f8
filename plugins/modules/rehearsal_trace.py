#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.rehearsal_trace."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_trace
short_description: Make or check a trace for the rehearsal of a scheduler
version_added: 0.1.0
description:
  - A trace says what a cluster has to schedule over a span of time, its nodes, queues and workloads. C(docs/rehearsal.md) describes the
    format, which is plain data and readable in git.
  - With O(pattern), makes one, the same for the same O(seed). With O(trace), checks one that is there, and reports everything that is wrong
    with it at once.
  - Asks no cluster.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  trace:
    description:
      - A trace as its file has it. Exactly one of this and O(pattern) is given.
    type: dict
  pattern:
    description:
      - V(research), a team's mix of notebooks on parts of GPUs, trials and trainings.
      - V(fractions), bursts of short pods with parts of GPUs.
      - V(gangs), trainings of two teams whose pods start together.
      - V(inference), services that never end beside short trials.
      - V(reclaim), a team uses what another one leaves, until that one comes back for its quota.
      - V(nearly_full), jobs of all sizes in a cluster that is nearly full.
    type: str
    choices: [research, fractions, gangs, inference, reclaim, nearly_full]
  nodes:
    description:
      - Nodes of the trace that O(pattern) makes, each with C(count), C(gpus) and the other keys of a trace's nodes.
    type: list
    elements: dict
    default: [{count: 4, gpus: 8}]
  span:
    description:
      - Length of the trace that O(pattern) makes, in seconds, V(1) at least.
    type: float
    default: 600
  seed:
    description:
      - What its random choices begin with.
    type: int
    default: 1
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
seealso:
  - module: kubegpu.tenancy.rehearsal_record
  - module: kubegpu.tenancy.rehearsal_rounds
"""

EXAMPLES = r"""
- name: Make bursts of pods that share GPUs, for four nodes with eight GPUs each
  kubegpu.tenancy.rehearsal_trace:
    pattern: fractions
    span: 300
  register: made

- name: Check a trace that is kept in git
  kubegpu.tenancy.rehearsal_trace:
    trace: "{{ lookup('ansible.builtin.file', 'traces/monday.yml') | from_yaml }}"
"""

RETURN = r"""
trace:
  description: The trace, without what is as by default.
  returned: success
  type: dict
  sample:
    format: 1
    span: 600.0
    nodes: [{count: 4, gpus: 8}]
    queues: [{name: notebooks, gpu: {quota: 32, over_quota_weight: 1}}]
    priority_classes: {}
    workloads: [{name: burst-0-0, queue: notebooks, runs: 41.2, gpus: 0.5}]
gpus:
  description: GPU devices of all its nodes.
  returned: success
  type: int
  sample: 32
pods:
  description: Number of its pods.
  returned: success
  type: int
  sample: 128
problems:
  description: What is wrong with O(trace), one sentence each with the place.
  returned: when O(trace) is refused
  type: list
  elements: str
"""

from ..module_utils._common.run import Result, Run
from ..module_utils._kernel.host_module import run_host_module
from ..module_utils._rehearsal.patterns import PATTERNS, generate
from ..module_utils._rehearsal.validation import parse, parse_nodes

ARGUMENT_SPEC = {
    "trace": {"type": "dict"},
    "pattern": {"type": "str", "choices": list(PATTERNS)},
    "nodes": {"type": "list", "elements": "dict", "default": [{"count": 4, "gpus": 8}]},
    "span": {"type": "float", "default": 600},
    "seed": {"type": "int", "default": 1},
}
LEAST = {"span": 1}
ONE_OF = [("trace", "pattern")]


def reconcile(run: Run) -> Result:
    """Check the trace that is given, or make one."""
    params = run.params
    if params["pattern"]:
        trace = generate(params["pattern"], parse_nodes(params["nodes"]), params["span"], params["seed"])
    else:
        trace = parse(params["trace"])
    pods = sum(workload.pods for workload in trace.workloads)
    return {"changed": False, "trace": trace.data(), "gpus": trace.gpus, "pods": pods}


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC, least=LEAST, required_one_of=ONE_OF, mutually_exclusive=ONE_OF)


if __name__ == "__main__":
    main()
