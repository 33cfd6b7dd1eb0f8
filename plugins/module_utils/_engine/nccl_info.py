# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read by which way pods that use NCCL exchange data."""

from __future__ import annotations

from .._common.parallel import concurrently
from .._common.parties import attempt
from .._common.run import Result, Run
from .._common.text import shown
from .._common.values import JsonObject
from .._nccl.status import judge

ARGUMENT_SPEC = {
    "namespace": {"type": "str", "required": True},
    "label_selector": {"type": "str", "required": True},
    "container": {"type": "str"},
}


def reconcile(run: Run) -> Result:
    """Read the beginnings of the logs of some pods, where NCCL tells of its connections, and judge each by itself."""
    params, kube = run.params, run.kube
    namespace = params["namespace"]
    pods = sorted(item["metadata"]["name"] for item in kube.list("v1", "Pod", namespace, params["label_selector"]))

    def read(name: str) -> tuple[JsonObject | None, str]:
        found, unread = attempt(name, lambda: judge(kube.pods.logs(name, namespace, params["container"], lines=None)))
        return ({"name": name} | found if found else None), f"pod {shown(name)}: {unread.why}" if unread else ""

    rows = concurrently(read, pods)
    return {"changed": False, "pods": [row for row, _why in rows if row], "unread": [why for _row, why in rows if why]}
