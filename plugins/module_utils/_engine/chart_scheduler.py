# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Install a scheduler by its chart."""

from __future__ import annotations

import typing as t

from .._adapters.helm import Chart, exact_chart
from .._common.run import Result, Run
from .._schedulers.lifecycle import ensure_scheduler

ARGUMENT_SPEC: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "chart": {"type": "str", "required": True},
    "version": {"type": "str", "required": True},
    "repository": {"type": "str", "default": ""},
    "values": {"type": "dict", "default": {}},
    "helm_binary": {"type": "str", "default": "helm"},
    "timeout": {"type": "int", "default": 300},
}


def reconcile(run: Run) -> Result:
    """Have the scheduler that the options describe."""
    params = run.params
    chart = exact_chart(Chart(params["chart"], params["version"], params["repository"]))
    return ensure_scheduler(run, params["name"], chart, params["values"])
