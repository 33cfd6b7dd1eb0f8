#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.rehearsal_cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_cluster
short_description: Simulated nodes for rehearsals of a scheduler
version_added: 0.1.0
description:
  - Has the nodes of a trace on a cluster, simulated by KWOK, or removes them. Nothing runs on them, so that no GPU is needed.
  - For clusters on which nothing else depends. What runs there stays where it is, because the simulated nodes have a taint, but KAI Scheduler
    sees their GPUs.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) has the nodes of O(trace), and no other simulated ones. V(absent) removes them, and the pods of rehearsals.
    type: str
    choices: [present, absent]
    default: present
  trace:
    description:
      - The trace, as M(kubegpu.tenancy.rehearsal_trace) and M(kubegpu.tenancy.rehearsal_record) return it.
    type: dict
  image:
    description:
      - Image of KWOK.
    type: str
    default: registry.k8s.io/kwok/kwok:v0.8.0
  timeout:
    description:
      - Seconds for the whole change, waits included.
    type: int
    default: 180
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.rehearsal_rounds
"""

EXAMPLES = r"""
- name: Have the nodes of a trace
  kubegpu.tenancy.rehearsal_cluster:
    kubeconfig: /etc/kubegpu/rehearsal/cluster.yml
    trace: "{{ made.trace }}"

- name: Remove them, and all pods of rehearsals
  kubegpu.tenancy.rehearsal_cluster:
    kubeconfig: /etc/kubegpu/rehearsal/cluster.yml
    state: absent
"""

RETURN = r"""
steps:
  description: What was done, or would be in check mode, in that order.
  returned: when anything changes
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
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 9.1
"""

from ..module_utils._common.run import Result, Run
from ..module_utils._kernel.module import run_module
from ..module_utils._rehearsal.lifecycle import ensure_cluster, remove_cluster
from ..module_utils._rehearsal.plan import IMAGE
from ..module_utils._rehearsal.validation import parse

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "trace": {"type": "dict"},
    "image": {"type": "str", "default": IMAGE},
    "timeout": {"type": "int", "default": 180},
}


def reconcile(run: Run) -> Result:
    if run.params["state"] == "present":
        ensure_cluster(run, parse(run.params["trace"]), run.params["image"])
    else:
        remove_cluster(run)
    return run.result(notes=())


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "present", ["trace"])])


if __name__ == "__main__":
    main()
