# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Record what was verified of a tenant."""

from __future__ import annotations

import typing as t

from .._common.run import Result, Run
from .._common.values import stamp, utc_now
from .._tenant.lifecycle import record

ARGUMENT_SPEC: dict[str, t.Any] = {
    "name": {"type": "str", "required": True},
    "wanted": {"type": "str", "required": True},
    "results": {"type": "list", "elements": "dict", "required": True},
    "scheduler_version": {"type": "str", "default": ""},
}


def reconcile(run: Run) -> Result:
    """Write the record, over the one before."""
    now = utc_now()
    params = run.params
    record(run.kube, params["name"], params["wanted"], params["results"], now, run.check_mode, params["scheduler_version"])
    return run.result(at=stamp(now))
