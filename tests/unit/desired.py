# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Desired states of clusters, and what is refused of them."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY

KAI = {"name": "kai", "version": "v0.16.8"}
QUEUES = [{"name": "ml", "gpu": {"quota": 4, "limit": 4}, "children": [{"name": "training", "gpu": {"quota": 3}}]}]
WORKERS = [{"gpus": [0, 1, 2, 3]}, {"count": 4}, {}]
WEB = {"name": "web", "trust": "partial"}
ML = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": KAI, "queues": QUEUES}
SHARED = {"name": "kai", "shared": True}
OLD = {"name": "kai", "version": "v0.12.0", "gpu_sharing": True}
ENDED = {"name": "kai", "version": "v0.13.1"}
REGISTRY = {"name": "registry", "namespace": "registry", "labels": {"app": "registry"}, "ports": [5000]}


def read(tenants, workers=None, shared_scheduler=None, gpus=None, **variables):
    """The desired state of a cluster that is made where its workers are given, else of one that exists."""
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf"}
    variables |= existing if workers is None else {"nvkind_workers": workers, "lab_gpus": gpus}
    shared = {SHARED_SCHEDULER: shared_scheduler} if shared_scheduler else {}
    return desired_state(variables | shared | {TENANTS: tenants}, "dc1", TODAY)


def plan(tenants, workers=None, shared_scheduler=None, gpus=None):
    return read(tenants, workers, shared_scheduler, gpus).data()["tenants"]


def problems(tenants, workers=None, shared_scheduler=None):
    with pytest.raises(TenancyError) as caught:
        plan(tenants, workers, shared_scheduler)
    found = caught.value.problems
    assert all(problem.text in caught.value.message for problem in found)
    return found


def refused(host="dc1", **variables):
    with pytest.raises(TenancyError) as caught:
        desired_state(variables, host, TODAY)
    return caught.value.problems


def sharing(name, gpus, scheduler=None, queues=()):
    return {
        "name": name,
        "trust": "partial",
        "gpu_nodes": {"names": ["n1"], "shared_gpus": gpus},
        "scheduler": scheduler or KAI,
        "queues": list(queues),
    }


def old(name="a", scheduler=None, **more):
    return {"name": name, "trust": "high", "scheduler": scheduler or OLD} | more
