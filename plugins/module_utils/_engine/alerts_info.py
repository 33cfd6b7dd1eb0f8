# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read the alerts that fire for a cluster."""

from __future__ import annotations

import math

from .._common.run import Result, Run
from .._common.values import utc_now
from .._metrics.facts import FIRING
from .._metrics.status import firing
from .metrics_server import SERVER_SPEC, check_options, server_of

ARGUMENT_SPEC = SERVER_SPEC | {"url": {"type": "str", "required": True}, "timeout": {"type": "int", "default": 60}}


def reconcile(run: Run) -> Result:
    """Return the alerts that fire now."""
    check_options(run)
    now = math.floor(utc_now().timestamp())
    return {"changed": False, "alerts": firing(server_of(run).range("Alerts", FIRING, now, now, 1))}
