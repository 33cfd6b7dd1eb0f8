# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Refuse a change of KAI Scheduler that no rehearsal promoted."""

from __future__ import annotations

import dataclasses
import datetime

from .._common.errors import TenancyError
from .._common.names import QUEUE_API_VERSION, QUEUE_KIND
from .._common.run import Result, Run
from .._common.values import utc_now
from .._kai.lifecycle import helm_release
from .._kai.validation import release
from .._rehearsal.change import Change, Gate, kept, live, parse_verdict, wanted

ARGUMENT_SPEC = {
    "version": {"type": "str", "required": True},
    "gpu_sharing": {"type": "bool", "default": False},
    "values": {"type": "dict", "default": {}},
    "queues": {"type": "list", "elements": "dict", "default": []},
    "verdicts": {"type": "list", "elements": "dict", "default": []},
    "max_age": {"type": "int", "default": 30},
    "accept_holds": {"type": "list", "elements": "str", "default": []},
    "helm_binary": {"type": "str", "default": "helm"},
}
LEAST = {"max_age": 1}


def reconcile(run: Run, now: datetime.datetime | None = None) -> Result:
    """Compare the cluster with what is asked for, and refuse a change without a verdict; ``now`` decides how old verdicts are."""
    params = run.params
    verdicts = [parse_verdict(item, f"verdicts[{number}]") for number, item in enumerate(params["verdicts"])]
    asked = {key: params[key] for key in ("version", "gpu_sharing", "values", "queues")}
    installed = helm_release(run).inspect()
    after = wanted(asked, "the change", [])
    unchanged = {"changed": False, "change": "", "differences": [], "steps": []}
    if installed is None:
        return unchanged
    queues = run.kube.list(QUEUE_API_VERSION, QUEUE_KIND)
    after = dataclasses.replace(after, queues=kept(queues) | after.queues)
    change = Change(live(release(installed.chart_version).version, installed.values, queues), after)
    paths = [path for path, _before, _after in change.differences]
    if not paths:
        return unchanged
    gate = Gate(verdicts, datetime.timedelta(days=params["max_age"]), params["accept_holds"])
    allowed, refused = gate.judge(change, now or utc_now())
    if refused:
        raise TenancyError(
            f"KAI Scheduler would change from {change.before.version} to {change.after.version} ({', '.join(paths)}), and has to be "
            f"rehearsed before. {refused}",
            change=change.data(),
        )
    return unchanged | {
        "change": change.name,
        "differences": paths,
        "steps": [{"step": "let the change through", "why": allowed}],
    }
