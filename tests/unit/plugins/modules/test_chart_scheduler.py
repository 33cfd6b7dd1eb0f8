# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler that this collection does not know, by its chart."""

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart, exact_chart
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.modules.chart_scheduler import reconcile
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run, untimed
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item

LABEL = "kubegpu.tenancy/scheduler"
PARAMS = {
    "name": "volcano",
    "chart": "volcano",
    "version": "1.12.0",
    "repository": "https://charts.example",
    "values": {},
    "timeout": 60,
}
MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: scheduler}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
---
---
apiVersion: v1
kind: Service
metadata: {name: scheduler}
"""


def deployment(ready, **more):
    status = {"observedGeneration": 1, "availableReplicas": ready, "updatedReplicas": ready}
    return item("apps/v1", "Deployment", "scheduler", "volcano", spec={"replicas": 2}, status=status, **more)


def daemon_set(ready):
    status = {"observedGeneration": 1, "desiredNumberScheduled": 3, "numberAvailable": ready, "updatedNumberScheduled": ready}
    return item("apps/v1", "DaemonSet", "agent", "kube-system", spec={}, status=status)


RUNNING = (deployment(2), daemon_set(3))


class Charts(InMemoryHelm):
    """A Helm whose chart renders these manifests."""

    def template(self, *args, **kwargs):
        return super().template(*args, **kwargs) or MANIFESTS


class Cluster:
    """A virtual cluster, in which the chart's workloads become what a test says."""

    def __init__(self, *objects, workloads=RUNNING):
        self.kube = InMemoryApi(objects)
        self.helm = Charts(self.kube)
        self.helm.on_change = lambda release: [self.kube.put(one) for one in workloads if release]

    def call(self, check_mode=False, **params):
        self.kube.writes.clear()
        self.helm.calls.clear()
        return untimed(reconcile(make_run(PARAMS | params, self.kube, self.helm, check_mode)))


def namespace(**labels):
    return item("v1", "Namespace", "volcano", labels=labels)


def test_it_is_installed_as_it_was_predicted_and_only_once():
    cluster = Cluster()
    predicted = cluster.call(check_mode=True)
    assert (cluster.kube.writes, cluster.helm.calls) == ([], [])
    assert cluster.call() == predicted
    assert [step["step"] for step in predicted["steps"]] == ["label namespace volcano", "apply volcano"]
    assert predicted["diff"]["after"]["version"] == "1.12.0"
    assert cluster.kube.get("v1", "Namespace", "volcano")["metadata"]["labels"] == {LABEL: "volcano"}
    again = cluster.call()
    assert (again["changed"], cluster.kube.writes, cluster.helm.calls) == (False, [], [])
    # Helm takes a version with a v, too.
    assert cluster.call(version="v1.12.0")["changed"] is False


@pytest.mark.parametrize("asked", ["1.12.0", "v1.12.0"])
@pytest.mark.parametrize("installed", ["1.12.0", "v1.12.0"])
def test_a_chart_may_write_its_version_with_a_v(asked, installed):
    cluster = Cluster(namespace(**{LABEL: "volcano"}))
    cluster.helm.record(Release("volcano", "volcano", "deployed", 1, "volcano", installed, {}))
    assert cluster.call(version=asked)["changed"] is False


def test_helm_gets_a_registrys_tag_as_it_is_written():
    chart = exact_chart(Chart("oci://registry.example/volcano", "v1.12.0"))
    assert chart.args() == ["oci://registry.example/volcano", "--version", "v1.12.0"]


def test_another_version_or_other_values_are_an_upgrade():
    cluster = Cluster(namespace(team="a"))
    cluster.call()
    assert cluster.kube.get("v1", "Namespace", "volcano")["metadata"]["labels"] == {LABEL: "volcano", "team": "a"}
    assert [step["step"] for step in cluster.call(version="1.13.0")["steps"]] == ["apply volcano"]
    assert cluster.call(version="1.13.0", values={"a": 1})["changed"] is True
    assert cluster.helm.last("volcano", "volcano").values == {"a": 1}


@pytest.mark.parametrize(
    ("workloads", "told"),
    [
        ((deployment(1), daemon_set(3)), "Deployment scheduler has 1 of 2 pods available"),
        ((deployment(2), daemon_set(2)), "DaemonSet agent has 2 of 3 pods available"),
        ((deployment(2, generation=2), daemon_set(3)), "Deployment scheduler has 0 of 2 pods available"),
        ((deployment(2),), "DaemonSet agent does not exist"),
    ],
)
def test_pods_that_do_not_run_in_time_are_named(workloads, told):
    with pytest.raises(TenancyError, match="waiting for scheduler volcano") as failure:
        Cluster(workloads=workloads).call()
    assert failure.value.details["last_seen"] == told


def test_what_is_refused_is_refused_before_the_first_write():
    cluster = Cluster()
    cluster.helm.refusal = "values.a: the chart has no such key."
    with pytest.raises(TenancyError, match="the chart has no such key"):
        cluster.call()
    assert cluster.kube.writes == []


@pytest.mark.parametrize("metadata", ["{name: [x]}", "{name: x, namespace: {a: b}}", "[]", "{}"])
def test_workloads_with_odd_names_are_told_as_the_charts(metadata, monkeypatch):
    cluster = Cluster()
    monkeypatch.setattr(cluster.helm, "template", lambda *_args, **_kwargs: f"{{kind: Deployment, metadata: {metadata}}}")
    with pytest.raises(TenancyError, match=r"^chart: "):
        cluster.call()
    assert cluster.kube.writes == []


@pytest.mark.parametrize("name", ["kube-system", "kai-scheduler", "default", "Volcano", "-v"])
def test_a_namespace_of_others_is_refused(name):
    cluster = Cluster()
    with pytest.raises(TenancyError, match=r"^name: "):
        cluster.call(name=name)
    assert cluster.kube.writes == []


def test_what_a_killed_run_left_is_repaired():
    cluster = Cluster(namespace(**{LABEL: "volcano"}))
    cluster.helm.record(Release("volcano", "volcano", "pending-install", 1, "volcano", "1.12.0", {}))
    assert cluster.call()["changed"] is True
    assert cluster.helm.calls == [("uninstall", "volcano", "--no-hooks"), ("upgrade", "volcano")]


@pytest.mark.parametrize("version", ["1.x", ">=1.2", "1.12", "", "latest"])
def test_a_range_is_no_version(version):
    with pytest.raises(TenancyError, match="is no exact version of a chart"):
        Cluster().call(version=version)


def test_a_chart_here_has_the_version_that_is_asked_for(tmp_path):
    (tmp_path / "Chart.yaml").write_text("name: volcano\nversion: 1.11.0\n")
    with pytest.raises(TenancyError, match=r"^version: .* is version 1\.11\.0, not 1\.12\.0\.$"):
        Cluster().call(chart=str(tmp_path), repository="")
    assert Cluster().call(chart=str(tmp_path), repository="", version="1.11.0")["changed"]
    with pytest.raises(TenancyError, match=r"^chart: /none is no chart"):
        Cluster().call(chart="/none", repository="")
    with pytest.raises(TenancyError, match=r"^chart: https://h/v\.tgz is no chart: .*'https://h/v\.tgz'\.$"):
        Cluster().call(chart="https://u:S3CRET@h/v.tgz", repository="")
