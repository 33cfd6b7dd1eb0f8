# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check that a web page is served by pods, and found by its Service's name."""

from __future__ import annotations

from .._common.run import Result, Run
from .._probe.plan import IMAGE
from .._probe.status import concluded, record
from .._probe_web.lifecycle import CHECKS, probe
from .._probe_web.plan import NAME, SCHEDULER, Settings
from .._queues.validation import parse
from .._queues.values import leaves

ARGUMENT_SPEC = {
    "namespace": {"type": "str", "default": NAME},
    "image": {"type": "str", "default": IMAGE},
    "scheduler_name": {"type": "str", "default": SCHEDULER},
    "queues": {"type": "list", "elements": "dict", "default": []},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": 90},
}


def reconcile(run: Run) -> Result:
    params = run.params
    queues = leaves(parse(params["queues"]))
    queue = queues[0].name if queues else ""
    if run.check_mode:
        return concluded([record(name, "not_tried", "check mode") for name in CHECKS], 0.0)
    settings = Settings(params["namespace"], params["image"], params["scheduler_name"], queue, tuple(params["tolerations"]))
    results = probe(run.kube, settings, run.deadline)
    return concluded(results, run.deadline.elapsed())
