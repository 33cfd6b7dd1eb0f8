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
      - V(exact) also removes all other queues that carry our label, for example those that O(queues) no longer names.
      - V(absent) removes the queues. One that does not exist is fine.
      - Leaves are removed first. A queue with a child that would stay is refused.
    type: str
    choices: [present, exact, absent]
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
  remove_foreign:
    description:
      - With O(state=exact), also removes queues that are not ours, for example those that the chart or a person made.
    type: bool
    default: false
  force:
    description:
      - Whether to remove queues in which pods have not ended. Such pods go on where they run, but a pending one stays pending.
    type: bool
    default: false
  quota_sums:
    description:
      - What to do when the quotas of a queue's children are more than its own. KAI Scheduler accepts that, and cannot keep what is
        promised.
    type: str
    choices: [warn, error]
    default: warn
  scheduler_name:
    description:
      - Name that pods ask for the scheduler by. Those that name no queue run in C(default-queue).
    type: str
    default: kai-scheduler
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

- name: Have these queues and no others of ours, and refuse promises that cannot be kept
  kubegpu.tenancy.kai_queues:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    state: exact
    quota_sums: error
    queues:
      - name: ml
        gpu: {quota: 4, limit: 4}
        children:
          - {name: training, gpu: {quota: 4, limit: 4}}

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
import itertools
import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, finish, kube_module, side_by_side
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import SCHEDULER_NAME, release, when_webhook_answers
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.plan import (
    API_VERSION,
    KIND,
    Change,
    at_work,
    leaves,
    parse,
    plan,
    promised_twice,
)


def run(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool) -> dict[str, t.Any]:
    version, state, levels = params["kai_version"], params["state"], None
    if version and state != "absent":
        levels = release(version).queue_levels
    wanted = parse(params["queues"], levels, version)
    warnings = promised_twice(wanted) if state != "absent" else []
    if warnings and params["quota_sums"] == "error":
        raise TenancyError("\n".join(warnings), problems=warnings)
    changes = plan(wanted, kube.list(API_VERSION, KIND), state, params["remove_foreign"])
    if not params["force"]:
        _refuse_at_work([change.name for change in changes if change.verb == "delete"], params["scheduler_name"], kube)
    if not check_mode:
        _write_all(changes, kube, time.monotonic() + params["timeout"])
    return {
        "changed": bool(changes),
        "diff": {
            "before": {change.name: change.before for change in changes if change.verb != "create"},
            "after": {change.name: change.after for change in changes if change.verb != "delete"},
        },
        "changes": [{"action": change.verb, "name": change.name} for change in changes],
        "leaves": [queue.name for queue in leaves(wanted)],
        "warnings": warnings,
    }


def _refuse_at_work(doomed: list[str], scheduler: str, kube: Kube) -> None:
    if not doomed:
        return
    problems = [
        f"queues.{name}: is not removed, because pods in it have not ended: {', '.join(sorted(pods)[:10])}"
        + (f" and {len(pods) - 10} more." if len(pods) > 10 else ".")
        for name, pods in at_work(doomed, kube.list("v1", "Pod"), scheduler).items()
    ]
    if problems:
        raise TenancyError(
            "\n".join([*problems, "End them first, or remove the queues all the same with force."]), problems=problems
        )


def _write_all(changes: list[Change], kube: Kube, deadline: float) -> None:
    """Level after level, the queues of one side by side; after a failure no further level is begun."""

    def write(change: Change) -> None:
        verb = functools.partial(_write, kube, change)
        when_webhook_answers(f"queue {change.name} to be written", verb, deadline - time.monotonic())

    for _level, level in itertools.groupby(changes, key=lambda change: (change.verb == "delete", change.level)):
        side_by_side(write, level)


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
            "state": {"type": "str", "choices": ["present", "exact", "absent"], "default": "present"},
            "queues": {"type": "list", "elements": "dict", "required": True},
            "remove_foreign": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "quota_sums": {"type": "str", "choices": ["warn", "error"], "default": "warn"},
            "scheduler_name": {"type": "str", "default": SCHEDULER_NAME},
            "kai_version": {"type": "str"},
            "timeout": {"type": "int", "default": 120},
        }
    )
    try:
        finish(module, run(module.params, Kube.connect(module), module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
