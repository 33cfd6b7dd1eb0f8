# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Remove schedulers of charts that are not wanted any more."""

from __future__ import annotations

import typing as t

from .._common.run import Result, Run
from .._schedulers.lifecycle import remove_former

ARGUMENT_SPEC: dict[str, t.Any] = {
    "keep": {"type": "list", "elements": "str", "default": []},
    "helm_binary": {"type": "str", "default": "helm"},
    "timeout": {"type": "int", "default": 300},
}


def reconcile(run: Run) -> Result:
    """Remove the schedulers that are not wanted."""
    return remove_former(run, run.params["keep"])
