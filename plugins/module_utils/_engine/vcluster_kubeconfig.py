# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Write or remove the kubeconfig of a virtual cluster."""

from __future__ import annotations

import typing as t

from .._access.lifecycle import Access
from .._adapters.asking import ask
from .._adapters.kubeconfig_file import KubeconfigFile
from .._adapters.kubernetes import Kube
from .._common.run import Result, Run
from .._vcluster.control_plane import Ask

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str"},
    "path": {"type": "path"},
    "server": {"type": "str"},
    "proxy_url": {"type": "str"},
    "context_name": {"type": "str"},
    "make_current": {"type": "bool", "default": False},
    "service_account": {
        "type": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str", "default": "kube-system"},
            "cluster_role": {"type": "str"},
            "expiration": {"type": "int", "default": 86400},
        },
    },
    "verify": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 30},
}


def reconcile(run: Run, ask: Ask = ask, connect: t.Callable[..., Kube] = Kube.connect) -> Result:
    path = run.params["path"]
    access = Access(run, ask, connect, KubeconfigFile(path) if path else None)
    return access.present() if run.params["state"] == "present" else access.absent()
