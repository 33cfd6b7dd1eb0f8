# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of whole clusters, and that what they make is what the steps of site would make."""

from __future__ import annotations

from types import SimpleNamespace

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import load_manifests
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import tenant as engine
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.work import Work
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._render.lifecycle import Place, render
from ansible_collections.kubegpu.tenancy.plugins.modules import tenants as module
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.charts import Charts
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, ML, QUEUES, SHARED, WEB, read
from ansible_collections.kubegpu.tenancy.tests.unit.helm import InMemoryHelm
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import on_host

HELM = Place("helm", "./clusters/dc1", "flux-system")
FLUX = Place("flux", "./clusters/dc1", "flux-system")
SERVER = {"values": {"exportKubeConfig": {"server": "https://ml.tenant-ml"}}}
METRICS = {"provider": "annotations", "namespace": "monitoring"}
SHARING = WEB | {
    "name": "vision",
    "gpu_nodes": {"names": ["n1"], "shared_gpus": 2},
    "scheduler": SHARED,
    "queues": [{"name": "vision", "gpu": {"quota": 2, "limit": 2}}],
}
SECOND = WEB | {
    "name": "batch",
    "scheduler": {"name": "second", "chart": "second", "version": "1.0.0", "repository": "https://x.example"},
}
OPTIONS = {name: option.get("default") for name, option in module.ARGUMENT_SPEC.items()} | {
    "kubeconfigs": "/k",
    "kubeconfig": None,
}


def rendered(tenants, place=HELM, kube=None, former=None, charts=None, **variables):
    cluster = read(tenants, **variables).data()
    charts = charts or Charts()

    def template(item):
        chart = Chart(item.reference, item.version, item.repository)
        return charts.template(item.release, item.namespace, chart, item.values)

    return render(kube or InMemoryApi(), cluster, place, former or {}, template)


def documents(files, *paths):
    return [document for path in paths for document in load_manifests(files[path]) if document]


def test_the_same_input_gives_the_same_files():
    assert rendered([ML, WEB]) == rendered([ML, WEB])
    other = ML | {"scheduler": dict(reversed(KAI.items())), "queues": [dict(reversed(QUEUES[0].items()))]}
    assert rendered([other, WEB]) == rendered([ML, WEB])


def test_a_tenant_has_one_folder_with_a_list_of_what_is_applied():
    found = rendered([ML, WEB])
    assert sorted(found["web"]) == [
        "kustomization.yaml",
        "namespace.yaml",
        "policies.yaml",
        "virtual-cluster/chart.yaml",
        "virtual-cluster/values.yaml",
    ]
    assert sorted(found["ml"].keys() - found["web"].keys()) == [
        "inside/config.yaml",
        "inside/kustomization.yaml",
        "inside/namespace.yaml",
        "inside/queues.yaml",
        "scheduler/chart.yaml",
        "scheduler/values.yaml",
    ]
    listing = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    resources = ["namespace.yaml", "policies.yaml"]
    assert documents(found["web"], "kustomization.yaml") == [listing | {"resources": resources}]


def test_flux_gets_objects_that_it_neither_removes_nor_replaces_variables_in():
    found = rendered([ML | {"vcluster": SERVER}, WEB], FLUX)
    assert sorted(found["web"]) == ["kustomization.yaml", "namespace.yaml", "policies.yaml", "virtual-cluster.yaml"]
    (listing,) = documents(found["ml"], "kustomization.yaml")
    assert listing["resources"] == ["namespace.yaml", "policies.yaml", "scheduler.yaml", "virtual-cluster.yaml"]
    assert listing["commonAnnotations"] == {
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
        "kustomize.toolkit.fluxcd.io/substitute": "disabled",
    }
    repository, release, inside = documents(found["ml"], "scheduler.yaml")
    assert [one["kind"] for one in (repository, release, inside)] == ["HelmRepository", "HelmRelease", "Kustomization"]
    assert inside["spec"]["path"] == "./clusters/dc1/ml/inside"
    assert "commonAnnotations" not in documents(found["ml"], "inside/kustomization.yaml")[0]


def test_the_namespace_says_for_which_kubernetes_the_chart_is_rendered():
    found = rendered([WEB], kube=InMemoryApi(version="v1.34.2"))
    (namespace,) = documents(found["web"], "namespace.yaml")
    assert namespace["metadata"]["annotations"] == {"kubegpu.tenancy/trust": "partial", "kubegpu.tenancy/rendered-for": "1.34"}


def test_a_tenant_that_is_absent_has_no_files_and_others_are_left_out_on_request():
    gone = WEB | {"name": "gone", "state": "absent"}
    assert {name: bool(files) for name, files in rendered([WEB, gone]).items()} == {"web": True, "gone": False}
    assert list(rendered([ML, WEB], kubegpu_only=["web"])) == ["web"]


def test_a_tenant_that_shares_the_hosts_scheduler_keeps_to_its_queues_by_policies():
    found = rendered([SHARING], shared_scheduler=KAI)["vision"]
    assert "inside/kustomization.yaml" not in found
    (namespace,) = documents(found, "namespace.yaml")
    assert namespace["metadata"]["labels"]["kubegpu.tenancy/scheduler"] == "kai"
    admits = {one["metadata"]["annotations"]["kubegpu.tenancy/admits"] for one in documents(found, "policies.yaml")}
    assert admits == {"no records of Helm by the tenant", "whole GPUs in queues: vision"}


def test_gatekeeper_gets_the_rules_of_the_policies_on_request():
    found = rendered([SHARING], HELM._replace(gatekeeper=True), shared_scheduler=KAI)["vision"]
    without = rendered([SHARING], shared_scheduler=KAI)["vision"]
    assert {path: text for path, text in found.items() if not path.startswith("gatekeeper/")} == without
    folders = {name: documents(found, f"gatekeeper/{name}/{name}.yaml") for name in ("templates", "constraints")}
    kinds = ["kubegpu-records-vision", "kubegpu-pods-vision"]
    assert [one["metadata"]["name"] for one in folders["templates"]] == [one["kind"] for one in folders["constraints"]] == kinds
    for name in folders:
        (listing,) = documents(found, f"gatekeeper/{name}/kustomization.yaml")
        assert listing["resources"] == [f"{name}.yaml"]
    assert found["gatekeeper/README.md"].endswith(
        """
Its audit judges an object as if it was created now. It does not know, and leaves out:

- `kubegpu-records-vision`: nothing
- `kubegpu-pods-vision`: an ephemeral container, which is judged when it is added
- `kubegpu-pods-vision`: who chose the node of a pod
- `kubegpu-pods-vision`: who set the labels of KAI Scheduler
"""
    )
    assert all(text.startswith("# Written by kubegpu.tenancy.render") for text in found.values())
    old = rendered([WEB], HELM._replace(gatekeeper=True), InMemoryApi(version="v1.29.3"))["web"]
    assert not [path for path in old if "gatekeeper" in path]


def test_flux_applies_constraints_after_their_templates_and_removes_both():
    found = rendered([WEB], FLUX._replace(gatekeeper=True))["web"]
    (listing,) = documents(found, "kustomization.yaml")
    assert "gatekeeper.yaml" in listing["resources"]
    templates, constraints = documents(found, "gatekeeper.yaml")
    assert templates == {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "gatekeeper-templates", "namespace": "tenant-web"},
        "spec": {
            "interval": "10m",
            "retryInterval": "1m",
            "path": "./clusters/dc1/web/gatekeeper/templates",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"},
        },
    }
    assert constraints["metadata"]["name"] == "gatekeeper-constraints"
    assert constraints["spec"] == templates["spec"] | {
        "path": "./clusters/dc1/web/gatekeeper/constraints",
        "dependsOn": [{"name": "gatekeeper-templates"}],
    }


def test_a_host_without_such_policies_gets_none():
    old = InMemoryApi(version="v1.29.3")
    assert "policies.yaml" not in rendered([WEB], kube=old)["web"]
    with refuses("version-too-old"):
        rendered([SHARING], kube=old, shared_scheduler=KAI)


def test_another_scheduler_has_its_namespace_and_its_hooks_run():
    found = rendered([SECOND])["batch"]
    assert documents(found, "inside/namespace.yaml")[0]["metadata"]["labels"] == {"kubegpu.tenancy/scheduler": "second"}
    (chart,) = documents(found, "scheduler/chart.yaml")
    assert (chart["release"], chart["namespace"], chart["hooks"]) == ("second", "second", True)


def test_node_pools_get_their_schedulers():
    found = rendered([ML | {"queues": [QUEUES[0] | {"node_pool": "a100"}]}])["ml"]
    kinds = [one["kind"] for one in documents(found, "inside/queues.yaml")]
    assert kinds == ["SchedulingShard", "Queue", "Queue"]


def test_what_a_chart_refuses_is_told_of_each_tenant_and_nothing_is_returned():
    gone = SECOND | {"scheduler": SECOND["scheduler"] | {"chart": "gone"}}
    with refuses("failed", "failed") as caught:
        rendered([gone, gone | {"name": "more"}])
    assert [problem.text for problem in caught.value.problems] == [
        "batch: gone: there is no such chart.",
        "more: gone: there is no such chart.",
    ]


def test_gpus_that_another_tenant_books_already_are_refused():
    kube = InMemoryApi(on_host("ml"))
    kube.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "vc-config-other", "namespace": "other", "labels": {"app": "vcluster"}},
            "stringData": {"config.yaml": "sync: {fromHost: {nodes: {enabled: true, selector: {all: true}}}}"},
        }
    )
    with refuses("gpus-in-use") as caught:
        rendered([ML], kube=kube)
    assert caught.value.problems[0].text.startswith("ml: node_selector: node gpu-ml with 4 GPUs: ")


# --- site afterwards -----------------------------------------------------------------------------------------------


def test_the_steps_of_site_find_no_difference_once_the_files_are_applied(monkeypatch):
    accepted = KAI | {"version": "v0.12.0", "accept_hazards": ["end-of-support"]}
    tenants = [ML | {"scheduler": accepted}, SHARING, SECOND]
    found = rendered(tenants, shared_scheduler=KAI, kubegpu_metrics=METRICS)
    for name, files in found.items():
        report = compared(monkeypatch, name, files, tenants, read(tenants, shared_scheduler=KAI, kubegpu_metrics=METRICS))
        assert report.failure == ""
        after = {part: result["diff"]["after"] for part, result in report.parts.items() if result["changed"]}
        # No controller runs here that would make KAI Scheduler's parts.
        assert {part: set(what) for part, what in after.items()} == ({"KAI Scheduler": {"parts"}} if name == "ml" else {})
        assert {"virtual cluster", "kubeconfig"} < report.parts.keys()


def compared(monkeypatch, name, files, tenants, cluster):
    """What site says in check mode of a tenant whose files were applied."""
    host, inside = InMemoryApi([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}]), InMemoryApi()
    for path in sorted(files):
        if path.endswith("chart.yaml"):
            (chart,), (values,) = documents(files, path), documents(files, path.replace("chart", "values")) or [{}]
            api = inside if path.startswith("scheduler/") else host
            release = Release(chart["release"], chart["namespace"], "deployed", 1, chart["chart"], chart["version"], values)
            InMemoryHelm(api).record(release)
        elif not path.endswith(("values.yaml", "kustomization.yaml")):
            for document in documents(files, path):
                (inside if path.startswith("inside/") else host).put(document)
    # As the chart of KAI Scheduler brings them.
    for crd in kai.CRDS if name == "ml" else ():
        inside.put({"apiVersion": kai.CRD[0], "kind": kai.CRD[1], "metadata": {"name": crd}})

    def start(options, kubeconfig):
        api = inside if kubeconfig else host
        return Run(options, True, api, InMemoryHelm(api))

    spec = engine.vcluster_kubeconfig.ARGUMENT_SPEC
    unchanged = {"changed": False, "diff": {"before": {}, "after": {}}}
    written = SimpleNamespace(ARGUMENT_SPEC=spec, reconcile=lambda _run: unchanged)
    monkeypatch.setattr(engine, "vcluster_kubeconfig", written)
    (tenant,) = [one for one in tenants_from(cluster.data()["tenants"]) if one.name == name]
    params = OPTIONS | {"shared_scheduler": cluster.data()["shared_scheduler"], "metrics": cluster.data()["metrics"]}
    work = Work(start, tenant, params, check_mode=True)
    engine.change(work)
    return work.report
