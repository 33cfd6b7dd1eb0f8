# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.modules.kai_queues_info import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run


def test_queues_are_read_by_two_listings():
    metadata = {"name": "ml", "labels": {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}}
    status = {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "1500m"}}}
    kube = InMemoryApi(
        [
            {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata},
            {
                "apiVersion": "scheduling.run.ai/v2alpha2",
                "kind": "PodGroup",
                "metadata": {"name": "pg", "namespace": "default"},
                "spec": {"queue": "ml"},
                "status": status,
            },
        ]
    )
    result = reconcile(make_run({"gpu_resource": "nvidia.com/gpu"}, kube))
    assert result["changed"] is False
    assert [(row["name"], row["owned"], row["gpu"]["allocated"]) for row in result["queues"]] == [("ml", True, 1.5)]
    assert kube.reads == [("list", "Queue", None), ("list", "PodGroup", None)]
