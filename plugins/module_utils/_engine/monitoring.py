# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Give the Prometheus operator rules, and Grafana a dashboard, or take them away."""

from __future__ import annotations

import typing as t

from .._common.run import Result, Run
from .._metrics.lifecycle import give_rules

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "namespace": {"type": "str"},
    "labels": {"type": "dict", "default": {}},
    "groups": {"type": "list", "elements": "dict", "default": []},
    "dashboard": {"type": "dict", "default": {}},
}


def reconcile(run: Run) -> Result:
    """Have the rules and the dashboard in the namespace of the Prometheus, or in none."""
    params = run.params
    wanted = {key: params[key] for key in ("namespace", "labels")} if params["state"] == "present" else {}
    give_rules(run, wanted, params["groups"], params["dashboard"])
    return run.result()
