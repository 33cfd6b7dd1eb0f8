# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read why pods wait, or do not exist."""

from __future__ import annotations

from .._adapters.kubernetes import Kube
from .._common.names import KAI_SCHEDULER_NAME
from .._common.run import Result, Run
from .._pending.lifecycle import pending

ARGUMENT_SPEC = {
    "namespaces": {"type": "list", "elements": "str", "default": []},
    "label_selector": {"type": "str", "default": ""},
    "scheduler_name": {"type": "str", "default": KAI_SCHEDULER_NAME},
    "host_kubeconfig": {"type": "path"},
    "host_namespace": {"type": "str"},
}


def reconcile(run: Run) -> Result:
    """Read the cluster and judge its pods."""
    return pending(run, lambda: Kube.connect(deadline=run.deadline, kubeconfig=run.params["host_kubeconfig"]))
