# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils import _kai_releases as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm import Release
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_scheduler import run

CONDITIONS = [{"type": name, "status": "True", "observedGeneration": 1} for name in kai.CONDITIONS]
CHART_NOTES = {"meta.helm.sh/release-name": "kai-scheduler", "meta.helm.sh/release-namespace": "kai-scheduler"}


class Cluster:
    """A fake Kube and Helm in one: objects by kind and name, and the calls that changed something."""

    def __init__(self):
        self.objects = {}
        self.recorded = None
        self.calls = []

    def put(self, kind, name, **more):
        metadata = {"name": name, "generation": 1} | more.pop("metadata", {})
        self.objects[(kind, name)] = {"kind": kind, "metadata": metadata} | more

    # Kube

    def get(self, _api_version, kind, name, _namespace=None):
        return self.objects.get((kind, name))

    def list(self, _api_version, kind, _namespace=None, label_selector=None):
        found = [item for (of, _name), item in self.objects.items() if of == kind]
        return [item for item in found if not label_selector or item.get("app") == label_selector.removeprefix("app=")]

    def apply(self, definition):
        self.calls.append(f"apply {definition['metadata']['name']}")
        established = {"conditions": [{"type": "Established", "status": "True"}]}
        self.put(definition["kind"], definition["metadata"]["name"], status=established)

    create = apply

    def delete(self, _api_version, kind, name, _namespace=None):
        if self.objects.pop((kind, name), None) is None:
            return False
        self.calls.append(f"delete {kind} {name}")
        if (kind, name) == ("Deployment", kai.OPERATOR):
            self.objects.pop(("Pod", kai.OPERATOR), None)
        if kind == "Pod":
            self.put("Pod", f"{name}-new", app="kai-scheduler-default", status={})
        return True

    # Helm

    def release(self, _name, _namespace):
        return self.recorded

    def crds(self, _chart):
        return [{"kind": "CustomResourceDefinition", "metadata": {"name": name}} for name in kai.CRDS]

    def upgrade(self, name, namespace, chart, values, _timeout):
        self.calls.append("upgrade")
        self.recorded = Release(name, namespace, "deployed", 1, name, chart.version, values)
        self.put("Config", "kai-config", status={"conditions": CONDITIONS})
        self.put("SchedulingShard", "default", status={"conditions": CONDITIONS})
        for deployment in kai.release(chart.version).deployments:
            status = {"availableReplicas": 1, "updatedReplicas": 1, "replicas": 1, "observedGeneration": 1}
            self.put("Deployment", deployment, spec={"replicas": 1}, status=status)
        self.put("Pod", "scheduler-1", app="kai-scheduler-default", status={})
        self.put("Pod", kai.OPERATOR, app=kai.OPERATOR, status={})
        for kind, webhook in kai.WEBHOOKS[:4]:
            self.put(kind, webhook)
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            self.put(kind, "kai-binder", metadata={"annotations": CHART_NOTES})
            self.put(kind, "cluster-admin")
        self.put("Namespace", "kai-scheduler")
        self.put("Namespace", "kai-resource-reservation")
        self.put("Namespace", "default")

    def uninstall(self, _name, _namespace, _timeout, hooks=True):
        self.calls.append(f"uninstall hooks={hooks}")
        self.recorded = None


def params(**changes):
    return {
        "state": "present",
        "version": "v0.12.0",
        "gpu_sharing": True,
        "values": {},
        "chart_source": "",
        "purge": False,
        "timeout": 3,
    } | changes


@pytest.fixture
def installed():
    cluster = Cluster()
    run(params(), cluster, cluster, False)
    cluster.calls = []
    return cluster


def test_install():
    cluster = Cluster()
    result = run(params(values={"global": {"registry": "mirror.example/kai"}, "x": 1}), cluster, cluster, False)
    assert result["changed"]
    assert result["values"] == {"global": {"registry": "mirror.example/kai", "gpuSharing": True}, "x": 1}
    assert result["diff"]["after"]["version"] == "v0.12.0"
    assert cluster.calls == [*(f"apply {name}" for name in kai.CRDS), "upgrade"]


def test_second_run_changes_nothing(installed):
    assert run(params(), installed, installed, False)["changed"] is False
    assert installed.calls == []


def test_check_mode_predicts(installed):
    for cluster in (Cluster(), installed):
        result = run(params(version="v0.13.1"), cluster, cluster, True)
        assert result["changed"]
        assert cluster.calls == []
    assert result["diff"]["before"]["version"] == "v0.12.0"


def test_upgrade_brings_crds_and_restarts_the_scheduler(installed):
    result = run(params(version="v0.13.1", gpu_sharing=False), installed, installed, False)
    assert result["diff"] == {
        "before": {
            "version": "v0.12.0",
            "values.global.registry": "ghcr.io/nvidia/kai-scheduler",
            "values.global.gpuSharing": True,
        },
        "after": {
            "version": "v0.13.1",
            "values.global.registry": "ghcr.io/kai-scheduler/kai-scheduler",
            "values.global.gpuSharing": False,
            "values.operator": {"qps": 5},
        },
    }
    assert installed.calls[-2:] == ["upgrade", "delete Pod scheduler-1"]


def test_no_way_back(installed):
    with pytest.raises(TenancyError, match=r"no way back to v0\.10\.2"):
        run(params(version="v0.10.2"), installed, installed, False)
    assert installed.calls == []


def test_an_unfinished_release_is_repaired(installed):
    installed.recorded = Release("kai-scheduler", "kai-scheduler", "pending-upgrade", 2, "kai-scheduler", "v0.12.0", {})
    installed.put("Secret", "sh.helm.release.v1.kai-scheduler.v2")
    installed.put("Job", "crd-upgrader")
    result = run(params(), installed, installed, False)
    assert result["diff"]["before"]["release"] == "pending-upgrade"
    deletions = ["delete Job crd-upgrader", "delete Secret sh.helm.release.v1.kai-scheduler.v2"]
    assert [call for call in installed.calls if call.startswith("delete")][:2] == deletions


def test_a_missing_config_is_a_difference(installed):
    del installed.objects[("Config", "kai-config")]
    assert run(params(), installed, installed, False)["diff"]["after"] == {"config": "kai-config"}
    assert "upgrade" in installed.calls


def test_old_operators_get_the_crd_they_need():
    cluster = Cluster()
    run(params(version="v0.10.2"), cluster, cluster, False)
    assert "apply clusterpolicies.nvidia.com" in cluster.calls


def test_not_ready_says_what_is_missing(installed):
    del installed.objects[("Deployment", "binder")]
    installed.objects[("Config", "kai-config")]["metadata"]["generation"] = 2
    with pytest.raises(TenancyError, match=r"Config kai-config is not Deployed.*Deployment binder does not exist"):
        run(params(timeout=0), installed, installed, False)


def test_absent_stops_the_operator_then_removes_webhooks_then_the_rest(installed):
    result = run(params(state="absent"), installed, installed, False)
    assert result["changed"]
    assert result["diff"]["after"] == {}
    assert installed.calls[:6] == [
        "delete Deployment kai-operator",
        "delete MutatingWebhookConfiguration mutating-kai-admission",
        "delete ValidatingWebhookConfiguration validating-kai-admission",
        "delete ValidatingWebhookConfiguration kai-queue-validation-v2",
        "delete ValidatingWebhookConfiguration kai-podgroup-validation-v2alpha2",
        "uninstall hooks=False",
    ]
    left = {
        name for kind, name in installed.objects if kind in ("Namespace", "ClusterRole", "Config", "CustomResourceDefinition")
    }
    assert left == {"kai-resource-reservation", "default", "cluster-admin", *kai.CRDS}
    assert run(params(state="absent"), installed, installed, False)["changed"] is False


def test_purge_takes_the_crds_and_the_reservations(installed):
    run(params(state="absent", purge=True), installed, installed, False)
    assert {name for kind, name in installed.objects if kind in ("Namespace", "CustomResourceDefinition")} == {"default"}


def test_absent_without_a_release_still_sweeps(installed):
    installed.recorded = None
    assert run(params(state="absent"), installed, installed, True)["changed"]
    assert installed.calls == []
    run(params(state="absent"), installed, installed, False)
    assert ("MutatingWebhookConfiguration", "mutating-kai-admission") not in installed.objects
