#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_queues."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_queues
short_description: Queues of KAI Scheduler
version_added: 0.1.0
description:
  - Makes the queues of KAI Scheduler what a tree says, with one listing and only the writes that are needed, parents first.
  - Everything wrong with the tree is told before anything is written, which KAI's own webhook mostly does not.
  - Amounts are written as people do, in devices, cores and bytes. The API's milli-CPU and megabytes are ours to count.
  - A write that KAI's webhook does not answer yet, as after an installation, is tried again within O(timeout).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) creates and changes the queues. Others in the cluster are left alone.
      - V(absent) removes the queues, leaves first. A queue with a child that is not among them is refused.
    type: str
    choices: [present, absent]
    default: present
  queues:
    description:
      - The queues, as a tree of C(children) or a flat list with C(parent).
      - C(name) is unique in the cluster. Work is submitted to leaves only.
      - C(gpu), C(cpu) and C(memory) each take C(quota), C(limit) and C(over_quota_weight), for example C(2) or C(0.5) GPUs,
        C(8) or C(500m) CPUs, C(64Gi) or C(10G) of memory, or C(unlimited).
      - An omitted quota is zero, an omitted limit unlimited, an omitted weight 1. An omitted resource is all three.
      - C(priority) is 100 when omitted. C(preempt_min_runtime) and C(reclaim_min_runtime), such as C(5m), are inherited then.
        C(display_name) is for people.
      - What is omitted goes back to its default in the cluster too.
    type: list
    elements: dict
    required: true
  kai_version:
    description:
      - Version of the KAI Scheduler that is to use the queues, such as V(v0.12.0).
      - When given, the number of levels is checked. Releases before v0.13 schedule in queues on the second level only.
    type: str
  timeout:
    description:
      - Seconds for all writes together.
    type: int
    default: 120
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.kai_scheduler
  - module: kubegpu.tenancy.kai_probe
"""

EXAMPLES = r"""
- name: Share four GPUs between training and notebooks
  kubegpu.tenancy.kai_queues:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    kai_version: v0.12.0
    queues:
      - name: ml
        gpu: {quota: 4, limit: 4}
        children:
          - {name: training, gpu: {quota: 3, limit: 4, over_quota_weight: 2}}
          - {name: notebooks, gpu: {quota: 1, limit: 2}, cpu: {limit: 500m}, priority: 50}

- name: Remove them
  kubegpu.tenancy.kai_queues:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    state: absent
    queues:
      - {name: ml}
      - {name: training, parent: ml}
      - {name: notebooks, parent: ml}
"""

RETURN = r"""
changes:
  description: What was written, or would be in check mode, in that order.
  returned: success
  type: list
  elements: dict
  contains:
    action:
      description: V(create), V(update) or V(delete).
      type: str
      returned: always
    name:
      description: Name of the queue.
      type: str
      returned: always
  sample:
    - {action: create, name: training}
leaves:
  description: The queues of O(queues) that work can be submitted to.
  returned: success
  type: list
  elements: str
  sample: [training, notebooks]
problems:
  description: What is wrong with O(queues), one sentence each with the place.
  returned: when O(queues) is refused
  type: list
  elements: str
"""

import functools
import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai_releases import release, when_webhook_answers
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kube import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues import API_VERSION, KIND, Change, leaves, parse, plan


def run(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool) -> dict[str, t.Any]:
    version, levels = params["kai_version"], None
    if version and params["state"] == "present":
        levels = release(version).queue_levels
    wanted = parse(params["queues"], levels, version)
    changes = plan(wanted, kube.list(API_VERSION, KIND), params["state"])
    if not check_mode:
        deadline = time.monotonic() + params["timeout"]
        for change in changes:
            write = functools.partial(_write, kube, change)
            when_webhook_answers(f"queue {change.name} to be written", write, deadline - time.monotonic())
    return {
        "changed": bool(changes),
        "diff": {
            "before": {change.name: change.before for change in changes if change.verb != "create"},
            "after": {change.name: change.after for change in changes if change.verb != "delete"},
        },
        "changes": [{"action": change.verb, "name": change.name} for change in changes],
        "leaves": [queue.name for queue in leaves(wanted)],
    }


def _write(kube: Kube, change: Change) -> None:
    if change.verb == "create":
        kube.create(change.body)
    elif change.verb == "update":
        kube.patch(API_VERSION, KIND, change.name, change.body)
    else:
        kube.delete(API_VERSION, KIND, change.name)


def main() -> None:
    module = kube_module(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "queues": {"type": "list", "elements": "dict", "required": True},
            "kai_version": {"type": "str"},
            "timeout": {"type": "int", "default": 120},
        }
    )
    try:
        module.exit_json(**run(module.params, Kube.connect(module), module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
