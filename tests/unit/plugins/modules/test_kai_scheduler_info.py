# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_scheduler_info import run


class Cluster:
    """A fake Kube and Helm in one, with one release that is complete but for what is missing."""

    def __init__(self, version="v0.13.1", missing=(), kubernetes="v1.35.4"):
        self.chart_version = version
        self.missing = missing
        self.kubernetes = kubernetes
        told = [{"type": name, "status": "True", "observedGeneration": 1} for name in kai.CONDITIONS]
        self.object = {"metadata": {"name": "default", "generation": 1}, "status": {"conditions": told}}

    def release(self, name, namespace):
        return Release(name, namespace, "deployed", 1, name, self.chart_version, {}) if self.chart_version else None

    def get(self, _api_version, kind, name, _namespace=None):
        if kind == "ConfigMap":
            return {"data": {"found": json.dumps({"at": "2026-11-21T12:00:00Z", "results": []})}}
        return self.object | {"kind": kind, "metadata": {"name": name, "generation": 1}}

    def list(self, _api_version, kind, _namespace=None):
        if kind != "Deployment":
            return [self.object | {"kind": kind}]
        status = {"availableReplicas": 1, "updatedReplicas": 1, "replicas": 1, "observedGeneration": 1}
        names = set(kai.release(self.chart_version).deployments) - set(self.missing)
        return [{"metadata": {"name": name, "generation": 1}, "spec": {"replicas": 1}, "status": status} for name in names]

    def version(self):
        return self.kubernetes


def look(cluster, today="2026-11-21"):
    return run(cluster, cluster, datetime.date.fromisoformat(today))


def test_none():
    assert look(Cluster("")) == {"changed": False, "installed": False}


def test_all_is_there():
    found = look(Cluster())
    assert (found["version"], found["ready"], found["lacking"], found["installed_by"]) == ("v0.13.1", True, [], "operator")
    assert [(row["object"], row["type"]) for row in found["conditions"]] == [
        (name, condition) for name in ("Config kai-config", "SchedulingShard default") for condition in kai.CONDITIONS
    ]
    assert all(row["current"] for row in found["conditions"])
    assert found["last_probe"]["at"] == "2026-11-21T12:00:00Z"


def test_something_is_missing():
    found = look(Cluster(missing=["binder"]))
    assert (found["ready"], found["lacking"]) == (False, ["Deployment binder does not exist"])


@pytest.mark.parametrize(
    ("version", "today", "supported"),
    [
        ("v0.13.1", "2026-11-21", False),
        ("v0.12.0", "2026-12-31", True),
        ("v0.12.0", "2027-01-01", False),
        ("v0.19.0", "2030-01-01", True),
    ],
)
def test_support_ends_with_its_month(version, today, supported):
    assert look(Cluster(version), today)["supported"] is supported


@pytest.mark.parametrize(("kubernetes", "tested"), [("v1.35.4", True), ("v1.36.1+k3s1", True), ("v1.37.0", False), ("odd", None)])
def test_kubernetes_versions(kubernetes, tested):
    assert look(Cluster("v0.16.8", kubernetes=kubernetes))["kubernetes_tested"] is tested
