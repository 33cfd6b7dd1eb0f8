# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import copy
import datetime

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.inventory import configs, find
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.virtual_cluster import CONFIG, OBJECTS, WORKLOAD, item


def renamed(objects, number):
    """The same virtual cluster for another tenant."""
    texts = yaml.safe_dump(objects).replace("team-ml", f"team-{number}")
    return yaml.safe_load(texts)


def test_a_record(certificate):
    data = {"client-certificate": certificate(datetime.datetime(2027, 11, 21, 12))}
    secret = item("Secret", "vc-team-ml", labels={"app": "vcluster", "vcluster-name": "team-ml"}, data=data)
    (record,) = find(InMemoryApi([*OBJECTS, secret])).records
    assert record == {
        "name": "team-ml",
        "namespace": "tenant-team-ml",
        "tenant": "team-ml",
        "trust": "partial",
        "network_policies": None,
        "version": "0.36.1",
        "state": "running",
        "reason": "",
        "kubernetes_version": "v1.35.4",
        "scheduler": {"name": "kai", "version": "v0.13.1"},
        "nodes": {"tenant.kubegpu.tenancy/team-ml": "true"},
        "backing_store": "database embedded",
        "volumes": {"data-team-ml-0": "5Gi"},
        "images": {"kubernetes": "ghcr.io/loft-sh/kubernetes:v1.35.4", "syncer": "ghcr.io/loft-sh/vcluster-oss:0.36.1"},
        "created": "2026-11-21T12:00:00Z",
        "kubeconfig_expires": "2027-11-21T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"status": {"observedGeneration": 1}}, "starting"),
        (
            {
                "metadata": WORKLOAD["metadata"] | {"annotations": {facts.PAUSED: "true"}},
                "spec": WORKLOAD["spec"] | {"replicas": 0},
            },
            "paused",
        ),
    ],
)
def test_states(change, state):
    assert find(InMemoryApi([WORKLOAD | change, *OBJECTS[1:]])).records[0]["state"] == state


HOSTS_OWN = {"controlPlane": {"distro": {"k8s": {"scheduler": {"enabled": False}}}}}


@pytest.mark.parametrize(
    ("config", "replicas", "scheduler"),
    [(CONFIG, 1, {"name": "kube-scheduler"}), (CONFIG, 0, None), (HOSTS_OWN, 1, {}), (HOSTS_OWN, 0, {})],
)
def test_without_pods_of_kai_only_one_that_runs_shows_its_scheduler(config, replicas, scheduler):
    paused = {
        "metadata": WORKLOAD["metadata"] | {"annotations": {facts.PAUSED: "true"}},
        "spec": WORKLOAD["spec"] | {"replicas": 0},
    }
    secret = OBJECTS[2] | {"data": {"config.yaml": base64.b64encode(yaml.safe_dump(config).encode())}}
    rest = [one for one in OBJECTS[3:] if one["kind"] not in ("Pod", "Namespace")]
    (record,) = find(InMemoryApi([WORKLOAD | ({} if replicas else paused), secret, *rest])).records
    assert record["scheduler"] == scheduler


def test_a_namespace_of_others_has_no_tenant():
    others = [o for o in OBJECTS if o["kind"] != "Namespace"]
    assert find(InMemoryApi([*others, item("Namespace", "tenant-team-ml", None)])).records[0]["tenant"] is None
    assert find(InMemoryApi([])) == ([], [])


def test_fifty_cost_as_many_requests_as_one():
    many = [item for number in range(50) for item in renamed(OBJECTS, number)]
    reads = []
    for objects, count in ((OBJECTS, 1), (many, 50)):
        api = InMemoryApi(objects)
        assert len(find(api).records) == count
        reads.append([(verb, kind) for verb, kind, _where in api.reads])
        api.reads.clear()
        assert len(configs(api).read) == count
        assert api.reads == [("list", "Secret", None)]
    assert reads[0] == reads[1]
    assert len(reads[0]) == 6
    assert {verb for verb, _kind in reads[0]} == {"list"}


def test_configurations_by_namespace_and_name():
    stray = copy.deepcopy(OBJECTS[2])
    stray["data"] = {}
    stray["metadata"]["name"] = "vc-config-stray"
    assert configs(InMemoryApi([*OBJECTS, stray])) == ({"tenant-team-ml/team-ml": CONFIG}, [])
