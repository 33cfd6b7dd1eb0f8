# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.modules.kai_scheduler import run

CONDITIONS = [{"type": name, "status": "True", "observedGeneration": 1} for name in kai.CONDITIONS]
CHART_NOTES = {"meta.helm.sh/release-name": "kai-scheduler", "meta.helm.sh/release-namespace": "kai-scheduler"}


def at(minute):
    return {"creationTimestamp": f"2026-11-21T12:0{minute}:00Z"}


class Cluster:
    """A fake Kube and Helm in one: objects by kind and name, and the calls that changed something."""

    def __init__(self):
        self.objects = {}
        self.recorded = None
        self.calls = []

    def put(self, kind, name, **more):
        if "stringData" in more:
            more["data"] = {key: base64.b64encode(text.encode()).decode() for key, text in more.pop("stringData").items()}
        metadata = {"name": name, "generation": 1} | more.pop("metadata", {})
        self.objects[(kind, name)] = {"kind": kind, "metadata": metadata} | more

    # Kube

    def get(self, _api_version, kind, name, _namespace=None):
        return self.objects.get((kind, name))

    def list(self, _api_version, kind, namespace=None, label_selector=None):
        found = [item for (of, _name), item in self.objects.items() if of == kind]
        found = [item for item in found if namespace in (None, item["metadata"].get("namespace", "kai-scheduler"))]
        return [item for item in found if not label_selector or item.get("app") == label_selector.removeprefix("app=")]

    def apply(self, definition):
        self.calls.append(f"apply {definition['metadata']['name']}")
        content = {key: value for key, value in definition.items() if key not in ("apiVersion", "kind")}
        if definition["kind"] == "CustomResourceDefinition":
            content["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
        self.put(definition["kind"], definition["metadata"]["name"], **content)

    create = apply

    def delete(self, _api_version, kind, name, _namespace=None):
        if self.objects.pop((kind, name), None) is None:
            return False
        self.calls.append(f"delete {kind} {name}")
        if kind == "Deployment":
            self.objects = {key: item for key, item in self.objects.items() if key[0] != "Pod" or item.get("app") != name}
        if kind == "Pod":
            self.put("Pod", f"{name}-new", app="kai-scheduler-default", status={}, spec={}, metadata=at(9))
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
        self.put("Pod", "scheduler-1", app="kai-scheduler-default", status={}, spec={}, metadata=at(1))
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
        "cdi": None,
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
    assert result["values"] == {
        "global": {"registry": "mirror.example/kai", "gpuSharing": True},
        "topologyMigration": {"enabled": False},
        "x": 1,
    }
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
    assert installed.calls[-3:] == ["delete Deployment kai-operator", "upgrade", "delete Pod scheduler-1"]


def queue(name, parent=None, **spec):
    return {"metadata": {"name": name}, "spec": spec | ({"parentQueue": parent} if parent else {})}


def steps(result):
    return [step["step"] for step in result["steps"]]


def test_the_way_back_goes_by_removal_and_keeps_the_queues(installed):
    run(params(version="v0.13.1"), installed, installed, False)
    for name, parent in (("ml", None), ("training", "ml")):
        installed.put("Queue", name, **queue(name, parent, priority=7))
    predicted = run(params(), installed, installed, True)
    way = ["export queues, Config and values", "remove v0.13.1", "apply the CRDs", "install v0.12.0", "write back the queues"]
    assert steps(predicted) == way
    assert "queues below the second level would not be scheduled any more" in predicted["passages"][0]

    for account in ("default", "binder", "scheduler"):
        installed.put("ServiceAccount", account, metadata=at(0))
    installed.calls = []
    removed = installed.uninstall

    def lose_a_queue(*args, **more):
        removed(*args, **more)
        del installed.objects[("Queue", "ml")]
        installed.objects[("Queue", "training")]["spec"]["priority"] = 1

    installed.uninstall = lose_a_queue
    result = run(params(), installed, installed, False)
    assert result["diff"]["before"]["version"] == "v0.13.1"
    assert installed.recorded.chart_version == "v0.12.0"
    assert not {("ServiceAccount", "binder"), ("ServiceAccount", "scheduler")} & installed.objects.keys()
    for kept in (("ServiceAccount", "default"), ("Namespace", "kai-scheduler"), ("Namespace", "kai-resource-reservation")):
        assert kept in installed.objects
    assert installed.calls[-3:] == ["apply ml", "apply training", "delete Secret kubegpu-kai-export"]
    assert installed.objects[("Queue", "training")]["spec"] == {"priority": 7, "parentQueue": "ml"}
    assert run(params(), installed, installed, False)["changed"] is False


def test_the_way_back_goes_on_where_it_was_killed(installed):
    run(params(version="v0.13.1"), installed, installed, False)
    installed.put("Queue", "ml", **queue("ml"))
    upgrade, installed.upgrade = installed.upgrade, None
    with pytest.raises(TypeError):
        run(params(), installed, installed, False)
    del installed.objects[("Queue", "ml")]
    installed.upgrade = upgrade
    installed.put("ServiceAccount", "binder")
    result = run(params(), installed, installed, False)
    rest = "remove the rest of the former release"
    assert steps(result) == [rest, "apply the CRDs", "install v0.12.0", "write back the queues"]
    assert ("ServiceAccount", "binder") not in installed.objects
    assert ("Queue", "ml") in installed.objects
    assert ("Secret", "kubegpu-kai-export") not in installed.objects


def test_the_way_back_is_refused_while_queues_are_deeper(installed):
    run(params(version="v0.13.1"), installed, installed, False)
    installed.calls = []
    for name, parent in (("a", None), ("b", "a"), ("c", "b")):
        installed.put("Queue", name, **queue(name, parent))
    with pytest.raises(TenancyError, match=r"v0\.12\.0 schedules queues on 2 levels only, and these are deeper: c\."):
        run(params(), installed, installed, False)
    assert installed.calls == []


def test_a_failed_step_says_which_and_what_the_pods_say(installed):
    def fail(*_args):
        waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
        installed.put("Pod", "crd-upgrader-1", status={"containerStatuses": [waiting | {"name": "x", "image": "x"}]})
        raise TenancyError("timed out", rc=1)

    installed.upgrade = fail
    with pytest.raises(
        TenancyError, match=r"Could not upgrade to v0\.13\.1: timed out Pods in kai-scheduler: .*ImagePullBackOff"
    ):
        run(params(version="v0.13.1"), installed, installed, False)


def test_values_that_the_chart_would_ignore_are_told(installed):
    result = run(params(values={"binder": {"cdi": True}}), installed, installed, True)
    assert result["warnings"] == ["values.binder.cdi: is not read by v0.12.0. Use binder.cdiEnabled, from 0.12.11 on."]
    with pytest.raises(TenancyError, match="cdi: cannot be set in KAI Scheduler v0"):
        run(params(cdi=True), installed, installed, True)
    assert run(params(version="v0.13.1", cdi=True), installed, installed, True)["values"]["binder"] == {"cdiEnabled": True}


def test_an_unfinished_release_is_repaired(installed):
    installed.recorded = Release("kai-scheduler", "kai-scheduler", "pending-upgrade", 2, "kai-scheduler", "v0.12.0", {})
    installed.put("Secret", "sh.helm.release.v1.kai-scheduler.v2")
    installed.put("Job", "crd-upgrader")
    result = run(params(), installed, installed, False)
    assert result["diff"]["before"]["release"] == "pending-upgrade"
    assert steps(result) == ["forget the unfinished revision", "apply the CRDs", "upgrade to v0.12.0", "restart the scheduler"]
    deletions = [
        "delete Secret sh.helm.release.v1.kai-scheduler.v2",
        "delete Deployment kai-operator",
        "delete Job crd-upgrader",
    ]
    assert [call for call in installed.calls if call.startswith("delete")][:3] == deletions


def test_topologies_of_kueue_are_copied_where_there_are_any():
    cluster = Cluster()
    cluster.put("CustomResourceDefinition", kai.KUEUE_TOPOLOGIES)
    assert "topologyMigration" not in run(params(), cluster, cluster, True)["values"]


def test_a_missing_config_is_a_difference(installed):
    del installed.objects[("Config", "kai-config")]
    assert run(params(), installed, installed, False)["diff"]["after"] == {"config": "kai-config"}
    assert "upgrade" in installed.calls


def test_old_operators_get_the_crd_they_need():
    cluster = Cluster()
    run(params(version="v0.10.2"), cluster, cluster, False)
    assert "apply clusterpolicies.nvidia.com" in cluster.calls


def test_a_scheduler_older_than_its_account_is_restarted_also_by_the_next_run(installed):
    installed.put("ServiceAccount", "default", metadata=at(0))
    assert run(params(), installed, installed, False)["changed"] is False
    installed.put("ServiceAccount", "default", metadata=at(5))
    result = run(params(), installed, installed, False)
    assert result["diff"]["after"] == {"scheduler": "restarted"}
    assert installed.calls == ["delete Pod scheduler-1"]
    assert run(params(), installed, installed, False)["changed"] is False


def test_a_missing_crd_is_a_difference(installed):
    del installed.objects[("CustomResourceDefinition", "podgroups.scheduling.run.ai")]
    assert run(params(), installed, installed, False)["diff"]["after"] == {"CRD": "podgroups.scheduling.run.ai"}
    assert ("CustomResourceDefinition", "podgroups.scheduling.run.ai") in installed.objects


def test_what_stays_broken_is_installed_again(installed):
    del installed.objects[("Deployment", "binder")]
    result = run(params(), installed, installed, False)
    assert result["diff"] == {"before": {"parts": "Deployment binder does not exist"}, "after": {"parts": "available"}}
    assert ("Deployment", "binder") in installed.objects


def test_not_ready_says_what_is_missing(installed):
    installed.upgrade = lambda *_args: None
    del installed.objects[("Deployment", "binder")]
    installed.objects[("Config", "kai-config")]["metadata"]["generation"] = 2
    with pytest.raises(TenancyError, match=r"Config kai-config is not Deployed.*Deployment binder does not exist"):
        run(params(timeout=0), installed, installed, False)


def test_absent_stops_the_operator_then_removes_webhooks_then_the_rest(installed):
    result = run(params(state="absent"), installed, installed, False)
    assert result["changed"]
    assert result["diff"]["after"] == {}
    first = [
        "delete Deployment kai-operator",
        "delete MutatingWebhookConfiguration mutating-kai-admission",
        "delete ValidatingWebhookConfiguration validating-kai-admission",
        "delete ValidatingWebhookConfiguration kai-queue-validation-v2",
        "delete ValidatingWebhookConfiguration kai-podgroup-validation-v2alpha2",
    ]
    assert installed.calls[:5] == first
    ended = [call.startswith("delete Deployment ") for call in installed.calls[5:]]
    assert all(ended[: installed.calls.index("uninstall hooks=False") - 5])
    assert "delete Deployment binder" in installed.calls
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
