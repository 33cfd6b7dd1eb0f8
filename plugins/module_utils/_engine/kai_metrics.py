# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Let a Prometheus of the host cluster read a KAI Scheduler's metrics, or no client at all."""

from __future__ import annotations

import typing as t

from .._common.run import Result, Run
from .._metrics.facts import PROVIDERS
from .._metrics.lifecycle import fence_shared, serve_kai

ARGUMENT_SPEC: dict[str, t.Any] = {
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "provider": {"type": "str", "choices": list(PROVIDERS)},
    "namespace": {"type": "str"},
    "labels": {"type": "dict", "default": {}},
}


def reconcile(run: Run) -> Result:
    """Have the objects by which the Prometheus reads the metrics of a KAI Scheduler, or none."""
    params = run.params
    wanted = {key: params[key] for key in ("provider", "namespace", "labels")} if params["state"] == "present" else {}
    if params["name"]:
        serve_kai(run, params["name"], wanted)
    else:
        fence_shared(run, wanted)
    return run.result()
