# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Schedulers other than KAI Scheduler, which this collection installs in virtual clusters by their charts."""

from __future__ import annotations

import re

from .._common.names import KAI_NAMESPACE, RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE

# Label of the namespace of such a scheduler, with its name, which is also that of the namespace and of the Helm release.
LABEL = "kubegpu.tenancy/scheduler"
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")

# Namespaces that are there already, or that KAI Scheduler has. Names that begin with kube- are Kubernetes' own (kubernetes.io, Namespaces).
RESERVED = ("default", KAI_NAMESPACE, RESERVATION_NAMESPACE, SCALE_ADJUST_NAMESPACE)
RESERVED_PREFIX = "kube-"

# What places no pods, and what it does instead.
_OPERATOR = "makes pods, and a scheduler places them"
NO_SCHEDULERS = {
    "kueue": "admits jobs before a scheduler places their pods",
    **dict.fromkeys(("jobset", "lws", "kuberay", "kuberay-operator", "kubeflow-trainer", "training-operator"), _OPERATOR),
}

# Schedulers that are removed at most at once: a virtual cluster has one. Its administrator can label any number of namespaces.
MOST = 10


def is_reserved(name: str) -> bool:
    """Tell whether a namespace of this name is Kubernetes' or KAI Scheduler's."""
    return name in RESERVED or name.startswith(RESERVED_PREFIX)


# What a chart makes that is waited for.
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
