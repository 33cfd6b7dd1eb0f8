#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.rehearsal_verdict."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rehearsal_verdict
short_description: Judge a change of KAI Scheduler by the rounds of its rehearsal
version_added: 0.1.0
description:
  - Compares the rounds of a candidate with those of a baseline, and returns V(promote), V(hold) or V(reject) with what it rests on.
  - V(reject) where the candidate violates an invariant, also where the baseline violates it, too.
  - V(hold) where a measure is worse than O(thresholds) allow, in the median of the rounds, and worse in every round than in any of the
    baseline's.
  - V(promote) otherwise. RV(notes) lists what the trace did not exercise.
  - Asks no cluster. In check mode it checks its options but for the rounds, and gives no verdict, so that what is wrong shows before hours of rounds.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  trace:
    description:
      - The trace that was played.
    type: dict
    required: true
  baseline:
    description:
      - Rounds under the scheduler as it is, as M(kubegpu.tenancy.rehearsal_rounds) returns them.
    type: list
    elements: dict
    required: true
  candidate:
    description:
      - Rounds under the scheduler as it is to be. Required without O(failure).
    type: list
    elements: dict
    default: []
  failure:
    description:
      - Why the candidate could not be installed or played, which rejects it. Empty where it was played.
    type: str
    default: ""
  from:
    description:
      - KAI Scheduler as the baseline's rounds had it.
    type: dict
    required: true
    suboptions: &scheduler
      version:
        description: Version, such as V(v0.16.8).
        type: str
        required: true
      gpu_sharing:
        description: Whether pods may ask for fractions of a GPU.
        type: bool
        default: true
      values:
        description: Values for the chart.
        type: dict
        default: {}
      accept_hazards:
        description: Names of hazards of the release that are accepted. They have no part in the change.
        type: list
        elements: str
        default: []
      queues:
        description: Tree of queues, as M(kubegpu.tenancy.kai_queues) takes it. Those of O(trace) when empty.
        type: list
        elements: dict
        default: []
  to:
    description:
      - KAI Scheduler as the candidate's rounds had it.
    type: dict
    required: true
    suboptions: *scheduler
  thresholds:
    description:
      - By how much a candidate may be worse, by measure, each with C(ratio), a part of the baseline's median, and C(amount), in the measure's
        own unit. Both add up. What is left out is as in C(docs/rehearsal.md).
    type: dict
    default: {}
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
seealso:
  - module: kubegpu.tenancy.rehearsal_rounds
"""

EXAMPLES = r"""
- name: Compare them, and allow pods to wait for twice as long
  kubegpu.tenancy.rehearsal_verdict:
    trace: "{{ recorded.trace }}"
    baseline: "{{ before.rounds }}"
    candidate: "{{ after.rounds }}"
    from: {version: v0.13.1}
    to: {version: v0.16.8}
    thresholds:
      bind_p95: {ratio: 1}
  register: verdict

- name: Go no further with what is not promoted
  ansible.builtin.assert:
    that: verdict.result == 'promote'
    fail_msg: "{{ verdict.reasons | join(' ') }}"
"""

RETURN = r"""
result:
  description: V(promote), V(hold) or V(reject).
  returned: success, not in check mode
  type: str
  sample: reject
reasons:
  description: What it rests on, a sentence each.
  returned: success, not in check mode
  type: list
  elements: str
  sample:
    - "The candidate violates reserved (every GPU that pods share is reserved) in 1 of 3 rounds: burst-0-4-0 has part of a GPU of
      simulated-0-1 that is not reserved: others can get it, too (12 s)."
notes:
  description: >-
    What only the baseline violates, what was not measured, what the trace did not exercise, and how the candidate groups pods in another way, which
    no rehearsal plays.
  returned: success, not in check mode
  type: list
  elements: str
  sample: ["Not exercised by the trace: pods that start together."]
format:
  description: Version of the format of what is returned.
  returned: success, not in check mode
  type: int
  sample: 1
at:
  description: When the verdict was made.
  returned: success, not in check mode
  type: str
  sample: "2026-11-23T10:00:00+00:00"
change:
  description: What was rehearsed, by which M(kubegpu.tenancy.rehearsal_gate) knows it again.
  returned: success
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
comparisons:
  description: The measures.
  returned: success, not in check mode
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
"""

import datetime

from ..module_utils._common.run import Result, Run
from ..module_utils._common.values import utc_now
from ..module_utils._kernel.host_module import run_host_module
from ..module_utils._rehearsal.change import Change, not_played, wanted
from ..module_utils._rehearsal.facts import FORMAT
from ..module_utils._rehearsal.validation import parse, parse_rounds, thresholds
from ..module_utils._rehearsal.verdict import judge

SCHEDULER = {
    "version": {"type": "str", "required": True},
    "gpu_sharing": {"type": "bool", "default": True},
    "values": {"type": "dict", "default": {}},
    "accept_hazards": {"type": "list", "elements": "str", "default": []},
    "queues": {"type": "list", "elements": "dict", "default": []},
}
ARGUMENT_SPEC = {
    "trace": {"type": "dict", "required": True},
    "baseline": {"type": "list", "elements": "dict", "required": True},
    "candidate": {"type": "list", "elements": "dict", "default": []},
    "failure": {"type": "str", "default": ""},
    "from": {"type": "dict", "required": True, "options": SCHEDULER},
    "to": {"type": "dict", "required": True, "options": SCHEDULER},
    "thresholds": {"type": "dict", "default": {}},
}


def reconcile(run: Run, now: datetime.datetime | None = None) -> Result:
    """Judge the candidate; ``now`` is when."""
    params = run.params
    trace, allowed = parse(params["trace"]), thresholds(params["thresholds"])
    change = Change(*(wanted(params[which], which, trace.queues) for which in ("from", "to")))
    # Before they were played, there are none to judge.
    if run.check_mode:
        return {"changed": False, "change": change.data()}
    baseline = parse_rounds(params["baseline"], "baseline")
    candidate = [] if params["failure"] else parse_rounds(params["candidate"], "candidate")
    at = (now or utc_now()).isoformat(timespec="seconds")
    made = {"changed": False, "format": FORMAT, "at": at, "change": change.data()}
    judged = judge(trace, baseline, candidate, allowed, params["failure"]).data()
    return made | judged | {"notes": [*judged["notes"], *not_played(change)]}


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
