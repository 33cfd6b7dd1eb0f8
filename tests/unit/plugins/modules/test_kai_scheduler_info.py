# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_NAMESPACE, SHARD
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.validation import release
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_scheduler_info import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

REPORT = {"at": "2026-11-21T12:00:00Z", "results": []}


class Installed:
    """A cluster with one release that is complete but for what is missing."""

    def __init__(self, version="v0.13.1", missing=(), kubernetes="v1.35.4", values=None):
        self.kube = InMemoryApi(self._objects(version, missing) if version else [], version=kubernetes)
        self.helm = InMemoryHelm(self.kube)
        if version:
            self.helm.record(Release(kai.RELEASE_NAME, KAI_NAMESPACE, "deployed", 1, kai.CHART, version, values or {}))

    @staticmethod
    def _objects(version, missing):
        conditions = [{"type": name, "status": "True", "observedGeneration": 1} for name in kai.CONDITIONS]
        for api_version, kind, name in (kai.CONFIG, (*SHARD, "default")):
            metadata = {"name": name, "generation": 1}
            yield {"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": {"conditions": conditions}}
        status = {"availableReplicas": 1, "updatedReplicas": 1, "replicas": 1, "observedGeneration": 1}
        for name in set(release(version).deployments) - set(missing):
            metadata = {"name": name, "namespace": KAI_NAMESPACE, "generation": 1}
            spec = {"replicas": 1}
            yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status}

    def record(self, **data):
        metadata = {"name": "kubegpu-probe", "namespace": KAI_NAMESPACE}
        self.kube.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        return self


def read(installed, today="2026-11-21"):
    return reconcile(make_run({}, installed.kube, installed.helm), datetime.date.fromisoformat(today))


def test_none():
    assert read(Installed("")) == {"changed": False, "installed": False}


def test_all_parts_are_there():
    found = read(Installed())
    assert (found["version"], found["ready"], found["missing"], found["installed_by"]) == ("v0.13.1", True, [], "operator")
    assert [(row["object"], row["type"]) for row in found["conditions"]] == [
        (name, condition) for name in ("Config kai-config", "SchedulingShard default") for condition in kai.CONDITIONS
    ]
    assert all(row["current"] for row in found["conditions"])
    assert found["last_probe"] is None


def test_the_last_probe():
    assert read(Installed().record(report=json.dumps(REPORT)))["last_probe"] == REPORT
    # As a release of this collection before this one wrote it.
    assert read(Installed().record(found="{}"))["last_probe"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"status": "x"},
        {"status": [1]},
        {"status": {"conditions": "x"}},
        {"status": {"conditions": [{"type": ["x"]}]}},
        {"spec": "x"},
        {"spec": {"scheduler": "x"}},
        {"spec": {"scheduler": {"service": [1]}}},
        {"spec": {"scheduler": {"service": {"image": "x"}}}},
    ],
)
def test_what_the_tenant_wrote_in_another_form_is_named(change):
    installed = Installed()
    api_version, kind, name = kai.CONFIG
    installed.kube.put(
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "generation": 1}, "status": {}} | change
    )
    with pytest.raises(TenancyError, match="what KAI Scheduler's operator reports cannot be read"):
        read(installed)


def test_a_record_that_is_nested_deep_is_none():
    assert read(Installed().record(report="[" * 600 + "]" * 600))["last_probe"] is None


def test_a_part_is_missing():
    found = read(Installed(missing=["binder"]))
    assert (found["ready"], found["missing"]) == (False, ["Deployment binder does not exist"])


@pytest.mark.parametrize(
    ("version", "today", "supported"),
    [("v0.13.1", "2026-11-21", False), ("v0.12.0", "2026-12-31", True), ("v0.12.0", "2027-01-01", False)],
)
def test_support_ends_with_its_month(version, today, supported):
    assert read(Installed(version), today)["supported"] is supported


@pytest.mark.parametrize(("kubernetes", "tested"), [("v1.35.4", True), ("v1.37.0", False)])
def test_kubernetes_versions(kubernetes, tested):
    assert read(Installed("v0.16.8", kubernetes=kubernetes))["kubernetes_tested"] is tested


def test_hazards_and_which_of_them_were_accepted():
    installed = Installed(values={"global": {"gpuSharing": True}})
    found = read(installed)
    gates = ["#1103", "#1673", "end-of-support"]
    # Hazards that touch some work only refuse nothing.
    work = ["#1798", "#1556", "#1729", "#1863", "#1906"]
    assert [hazard.partition(":")[0] for hazard in found["hazards"]] == [*gates, *work]
    assert found["touching_hazards"] == found["hazards"][:3]
    assert found["accepted_hazards"] == []
    # As kai_scheduler notes it; what does not touch what is installed is left out.
    annotations = {kai.ACCEPTED_ANNOTATION: "#104,#1103,#1673,end-of-support"}
    installed.kube.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": KAI_NAMESPACE, "annotations": annotations}})
    assert read(installed)["accepted_hazards"] == ["#1103", "#1673", "end-of-support"]
    assert read(installed, "2026-03-31")["accepted_hazards"] == ["#1103", "#1673"]
    # Without shared GPUs the race of their reservations touches no pod.
    assert [hazard.partition(":")[0] for hazard in read(Installed())["touching_hazards"]] == ["end-of-support"]
