# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant whose control plane has several pods, with the chart's own etcd as their store, loses a node."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.pods import is_ready
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster, Lab, changed

NAME = "kubegpu-ha"
NAMESPACE = "tenant-ha"


def apart(app: str) -> dict[str, Any]:
    """Pods of an app on nodes of their own."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


# The tag is that of the lab's own etcd.
ETCD = {"highAvailability": {"replicas": 3}, "image": {"tag": "3.6.16-0"}, "scheduling": apart("vcluster-etcd")}
PLANE = {
    "backingStore": {"etcd": {"deploy": {"enabled": True, "statefulSet": ETCD}}},
    "statefulSet": {"highAvailability": {"replicas": 2}, "scheduling": apart("vcluster")},
}
VARIABLES: dict[str, Any] = {
    "lab_gpus": 3,
    "nvkind_workers": [{"count": 1}, {"count": 1}, {"count": 1}],
    "kubegpu_tenants": [{"name": "ha", "trust": "high", "vcluster": {"values": {"controlPlane": PLANE}}}],
}
DATA = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}, "data": {"a": "b"}}


@pytest.fixture(name="lab", scope="module")
def _lab() -> Iterator[Lab]:
    with Lab(NAME, f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site()
        yield lab


def planes(cluster: Cluster, app: str) -> dict[str, str]:
    """Nodes of the pods of an app that are ready, by the pods' names."""
    pods = cluster.kube.list("v1", "Pod", NAMESPACE, f"app={app}")
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if is_ready(pod)}


def test_a_control_plane_of_several_pods_goes_on_without_one_of_its_nodes(lab: Lab) -> None:
    cluster = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))
    path = cluster.kubeconfig.parent / "tenants/ha.yml"
    tenant = Kube.connect(kubeconfig=str(path))
    tenant.create(DATA)
    assert [len(set(planes(cluster, app).values())) for app in ("vcluster", "vcluster-etcd")] == [2, 3]

    # One that its users do not reach it by.
    server = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]
    addresses = {
        address["address"]: node["metadata"]["name"]
        for node in cluster.kube.list("v1", "Node")
        for address in node["status"]["addresses"]
    }
    entrance = next((name for address, name in addresses.items() if address in server), "")
    doomed = next(name for name in planes(cluster, "vcluster").values() if name != entrance)
    lab.run("docker", "stop", doomed)
    try:
        stopped = time.monotonic()

        def answers() -> tuple[bool | None, str]:
            try:
                for _try in range(10):
                    kept = tenant.get("v1", "ConfigMap", "kept", "default")
                    assert (kept or {}).get("data") == {"a": "b"}
                tenant.patch("v1", "ConfigMap", "kept", {"data": {"written": "without it"}}, "default")
            except TenancyError as exc:
                return None, exc.message
            return True, ""

        wait_for("ten answers in a row, and a write", answers, Deadline(180), 1.0)
        print(f"away for {time.monotonic() - stopped:.0f} s")
        assert len(planes(cluster, "vcluster")) >= 1
    finally:
        lab.run("docker", "start", doomed)

    def whole() -> tuple[bool | None, str]:
        found = [len(planes(cluster, app)) for app in ("vcluster", "vcluster-etcd")]
        return (True, "") if found == [2, 3] else (None, str(found))

    wait_for("all pods of the control plane", whole, Deadline(300), 2.0)
    lab.site()
    assert changed(lab.site()) == 0
    kept = tenant.get("v1", "ConfigMap", "kept", "default")
    assert (kept or {}).get("data") == DATA["data"] | {"written": "without it"}


def test_its_volumes_go_with_it(lab: Lab) -> None:
    variables = VARIABLES | {"kubegpu_tenants": [VARIABLES["kubegpu_tenants"][0] | {"state": "absent"}]}
    lab.site(f"--extra-vars={json.dumps(variables)}", "--extra-vars=kubegpu_confirm=lab")
    cluster = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))
    assert cluster.kube.get("v1", "Namespace", NAMESPACE) is None
    assert [item["metadata"]["name"] for item in cluster.kube.list("v1", "PersistentVolume")] == []
