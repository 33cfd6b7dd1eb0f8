# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import re
import time

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._assignment import lifecycle
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import depth
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import tenancy_info
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.validation import read_queues
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.values import manifest as volcano_manifest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import record
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.values import wanted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import EXPIRES_ANNOTATION
from ansible_collections.kubegpu.tenancy.plugins.modules import tenancy_info as module
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_record
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import KAI_VERSION, desired, host_kai, kubeconfig, node, on_host

RESULTS = [{"name": "gpu", "queue": "q", "verdict": "passed", "reason": "", "seconds": 1.0}]


class Host:
    """A host cluster with its tenants, each as asked and verified, and the folder of their kubeconfigs."""

    def __init__(self, folder, monkeypatch, *names: str, objects=(), **more) -> None:
        self.folder, self.tenants = folder, [desired(name, **more) for name in names]
        self.kube = InMemoryApi([one for name in names for one in on_host(name)] + list(objects))
        self.asked: list[str] = []
        self.queues = [manifest(queue) for queue in parse([{"name": "q"}]).values()]
        self.pod_groups: list[dict] = []
        monkeypatch.setattr(tenancy_info, "ask_list", self.ask)
        for tenant in tenants_from(self.tenants):
            (folder / f"{tenant.name}.yml").write_text(yaml.safe_dump(kubeconfig(tenant.name)))
            record(
                self.kube,
                tenant.name,
                wanted(tenant, {}),
                RESULTS,
                datetime.datetime.now(datetime.timezone.utc),
                False,
                KAI_VERSION,
            )
        self.kube.writes.clear()

    def ask(self, config, path, timeout):
        assert timeout <= 10
        self.asked.append(config["users"][0]["name"])
        return self.queues if path.endswith("/queues") else self.pod_groups

    def compare(self, **params):
        defaults = {
            "tenants": self.tenants,
            "only": [],
            "kubeconfigs": str(self.folder),
            "settings": {},
            "max_age": 3600,
            "also": [],
        }
        self.kube.reads.clear()
        result = tenancy_info.reconcile(Run(defaults | params, kube=self.kube))
        assert self.kube.writes == []
        return result

    def due(self, **params):
        return {found["name"]: (found["due"], found["reasons"]) for found in self.compare(**params)["tenants"]}


@pytest.fixture(name="host")
def _host(tmp_path, monkeypatch):
    return lambda *names, **more: Host(tmp_path, monkeypatch, *names, **more)


NOTHING = ([], [])


def test_a_tenant_that_is_as_asked(host):
    (found,) = host("ml").compare()["tenants"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.pop("verified_at"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.pop("created"))
    assert re.fullmatch("[0-9a-f]{16}", found.pop("wanted"))
    assert [(queue["name"], queue["gpu"]["allocated"]) for queue in found.pop("queues")] == [("q", 0)]
    assert found == {
        "name": "ml",
        "desired": tenants_from([desired("ml")])[0].data(),
        "state": "running",
        "due": [],
        "reasons": [],
        "vcluster_version": "0.36.1",
        "kubernetes_version": "v1.35.4",
        "scheduler_version": "v0.13.1",
        "network_policies": "enforced",
        "images": {},
        "results": RESULTS,
    }


def test_what_is_returned_is_what_is_documented(host):
    returned = yaml.safe_load(module.RETURN)
    result = host("ml").compare()
    assert result.keys() - returned.keys() == {"changed", "diff", "seconds"}
    assert not result["changed"]
    assert result["tenants"][0].keys() == returned["tenants"]["contains"].keys()


def test_fifty_tenants_cost_no_more_reads_than_one(host):
    one = host("t0")
    one.compare()
    many = host(*(f"t{number}" for number in range(50)))
    found = many.compare()
    assert [tenant["due"] for tenant in found["tenants"]] == [[]] * 50
    assert many.kube.reads == one.kube.reads
    assert len(many.kube.reads) <= 21
    # What only the virtual cluster itself knows is asked of each: its queues, and what uses them.
    assert sorted(many.asked) == sorted(tenant["name"] for tenant in many.tenants for _request in range(2))


def test_each_is_compared_with_what_is_wanted_of_it(host):
    cluster = host("ml", "web", "old")
    cluster.tenants[1]["vcluster"] = {"version": "0.35.3"}
    cluster.tenants[2]["state"] = "absent"
    cluster.tenants.append(desired("new"))
    assert cluster.due() == {
        "ml": NOTHING,
        "web": (["change", "verify"], ["something else is wanted of it than when it was verified"]),
        "old": (["change"], ["still there: its namespace, labels of nodes, its kubeconfig"]),
        "new": (["change", "verify"], ["it is absent"]),
    }
    assert cluster.asked == ["ml", "ml"]
    assert list(cluster.due(only=["web"])) == ["web"]


def test_a_kubeconfig_of_an_absent_tenant_is_a_leftover_whatever_is_in_it(host):
    cluster = host()
    (cluster.folder / "old.yml").symlink_to("/nowhere")
    cluster.tenants.append(desired("old", state="absent"))
    assert cluster.due() == {"old": (["change"], ["still there: its kubeconfig"])}


@pytest.mark.parametrize("text", [None, "", "[]", ": :", yaml.safe_dump(kubeconfig("web"))])
def test_a_kubeconfig_that_is_missing_or_leads_elsewhere(host, text):
    cluster = host("ml")
    path = cluster.folder / "ml.yml"
    path.unlink() if text is None else path.write_text(text)
    assert cluster.due() == {"ml": (["change", "verify"], ["its kubeconfig is missing, or leads elsewhere"])}
    assert cluster.asked == []


def test_what_uses_queues_is_counted_from_pod_groups(host):
    """A Queue's own status leaves out pods of Deployments with KAI Scheduler v0.12.0."""
    cluster = host("ml")
    cluster.pod_groups = [{"spec": {"queue": "q"}, "status": {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "500m"}}}}]
    (tenant,) = cluster.compare()["tenants"]
    assert [queue["gpu"]["allocated"] for queue in tenant["queues"]] == [0.5]


def test_queues_that_were_changed_from_within(host, monkeypatch):
    cluster = host("ml")
    cluster.queues = []
    assert cluster.due() == {"ml": (["change", "verify"], ["its queues differ: q"])}
    # They are a stronger reason than the age of the verification.
    assert cluster.due(max_age=-1) == {"ml": (["change", "verify"], ["its queues differ: q"])}

    def refuse(_config, path, **_timeout):
        raise ApiError(f"GET {path} failed: refused", status=None)

    monkeypatch.setattr(tenancy_info, "ask_list", refuse)
    ((due, (reason,)),) = cluster.due().values()
    assert due == ["change", "verify"]
    assert reason.startswith("its queues cannot be read: GET /apis/scheduling.run.ai/v2/queues failed: refused")

    assert cluster.compare()["tenants"][0]["queues"] is None


def odd(kind, name="odd", **content):
    return {"apiVersion": "x", "kind": kind, "metadata": {"name": name}} | content


ODD = [
    *(
        odd("PodGroup", status={"resourcesStatus": {"allocated": {"cpu": amount}}})
        for amount in ("abc", "Infinity", "sNaN", "1e999999999")
    ),
    *(
        odd("PodGroup", status={"resourcesStatus": {"allocated": {"nvidia.com/gpu": amount}}})
        for amount in (10**30, "1e999990", None)
    ),
    *(odd("Queue", spec=spec) for spec in ("x", {"resources": "x"}, {"resources": {"gpu": [1]}}, {"parentQueue": []})),
    *(
        odd("Queue", spec={"resources": {"gpu": {"quota": quota}}})
        for quota in ("1", 10**30, float("nan"), float("inf"), -5, True)
    ),
    *(odd("Queue", spec={"priority": priority}) for priority in ("high", 1.5, [])),
    *(odd("PodGroup", status=status) for status in ("a", [1], {"resourcesStatus": "x"}, {"resourcesStatus": {"allocated": [1]}})),
    odd("PodGroup", spec="x"),
]
# What says nothing, says nothing.
EMPTY = [odd("Queue", spec=0), odd("Queue", spec={"resources": {"gpu": []}}), odd("PodGroup", spec={"queue": {}}), odd("Queue")]


@pytest.mark.parametrize("served", [*ODD, *EMPTY], ids=range(len([*ODD, *EMPTY])))
def test_what_one_virtual_cluster_serves_is_that_tenants_reason_and_nobody_elses(host, monkeypatch, served):
    cluster = host("ml", "web")
    ask = cluster.ask

    def odd_in_ml(config, path, timeout):
        more = [served] if path.endswith("queues") == (served.get("kind") != "PodGroup") else []
        return ask(config, path, timeout) + (more if config["users"][0]["name"] == "ml" else [])

    monkeypatch.setattr(tenancy_info, "ask_list", odd_in_ml)
    found = cluster.due()
    queues = {one["name"]: one["queues"] for one in cluster.compare()["tenants"]}
    assert found["web"] == NOTHING
    assert [queue["name"] for queue in queues["web"]] == ["q"]
    # The queues that can be read are told.
    assert "q" in [queue["name"] for queue in queues["ml"]]
    due, reasons = found["ml"]
    assert due == ([] if served in EMPTY else ["change", "verify"])
    assert all("odd" in reason and "cannot be read" in reason for reason in reasons)


@pytest.mark.parametrize(
    "answer", [RecursionError("maximum recursion depth exceeded"), MemoryError(), KeyError("items"), None, 7]
)
def test_whatever_fails_while_one_tenant_is_asked(host, monkeypatch, answer):
    cluster = host("ml", "web")
    ask = cluster.ask

    def fail(config, path, timeout):
        if config["users"][0]["name"] == "ml":
            if isinstance(answer, Exception):
                raise answer
            return answer
        return ask(config, path, timeout)

    monkeypatch.setattr(tenancy_info, "ask_list", fail)
    found = cluster.due()
    assert found["web"] == NOTHING
    assert found["ml"][0] == ["change", "verify"]
    assert "cannot be read" in found["ml"][1][0]


def test_a_tenant_whose_objects_cannot_be_judged_is_not_read_and_the_others_are(host):
    cluster = host("ml", "web")
    workload = cluster.kube.get("apps/v1", "StatefulSet", "ml", "tenant-ml")
    del workload["spec"]
    cluster.kube.put(workload)
    ml, web = cluster.compare()["tenants"]
    assert (ml["state"], ml["due"], ml["reasons"]) == ("not read", ["change", "verify"], ["it cannot be read: KeyError: 'spec'"])
    assert ml.keys() == web.keys()
    assert (web["state"], web["due"]) == ("running", [])


def test_a_long_chain_of_queues_costs_no_more_than_as_many_queues(host):
    cluster = host("ml")
    names = [f"c{number}" for number in range(3000)]
    cluster.queues += [
        odd("Queue", name, spec={"parentQueue": parent}) | {"metadata": {"name": name, "labels": OWNED_LABELS}}
        for name, parent in zip(names, ["q", *names])
    ]
    start = time.process_time()
    (found,) = cluster.compare()["tenants"]
    chain = time.process_time() - start
    for item in cluster.queues[1:]:
        item["spec"] = {}
    start = time.process_time()
    cluster.compare()
    assert chain < 10 * (time.process_time() - start) + 1
    assert found["reasons"][0].startswith("its queues differ: c0, c1, c10")
    # As deep as people and programs can read.
    assert depth(found["queues"]) < 100


def test_a_tenant_without_a_scheduler_of_its_own_is_not_asked(host):
    cluster = host("web", scheduler={}, queues=[])
    assert cluster.due() == {"web": NOTHING}
    assert cluster.asked == []
    assert cluster.compare()["tenants"][0]["queues"] is None


def test_the_images_of_what_runs_with_their_digests(host):
    cluster = host("ml")
    pod = cluster.kube.get("v1", "Pod", "scheduler-x-kai-scheduler-x-ml", "tenant-ml")
    seen = {"name": "main", "image": "kai/scheduler:v0.13.1", "imageID": "docker.io/kai/scheduler@sha256:11", "restartCount": 0}
    cluster.kube.put(pod | {"status": {"phase": "Running", "containerStatuses": [seen]}})
    assert cluster.compare()["tenants"][0]["images"] == {"kai/scheduler:v0.13.1": "sha256:11"}


def test_settings_of_roles_are_wanted_of_the_tenants(host):
    cluster = host("ml")
    assert cluster.due(settings={"vcluster_tenant_timeout": 9}) == {"ml": NOTHING}
    assert cluster.due(settings={"vcluster_tenant_probe_image": "x"})["ml"][0] == ["change", "verify"]


def test_a_verification_stands_for_a_while(host):
    cluster = host("ml")
    ((due, (reason,)),) = cluster.due(max_age=-1).values()
    assert due == ["verify"]
    assert re.fullmatch("it was verified [0-9]+ s ago, and that stands for -1 s", reason)


def test_what_is_not_listed_is_named(host):
    cluster = host("ml", "web", objects=[node("n9", "left")])
    cluster.tenants.pop()
    # What the run does not act on is listed all the same.
    assert cluster.compare(only=["other"])["unlisted"] == ["left", "web"]
    cluster.tenants += [desired("web", state="absent"), desired("left", state="absent")]
    assert cluster.compare()["unlisted"] == []


def test_a_temporary_tenant_counts_as_not_listed_once_it_has_expired(host):
    cluster = host("ml", objects=[*on_host("ci-1"), *on_host("ci-2")])
    for name, created in (("ci-1", "2026-01-01T12:00:00Z"), ("ci-2", "2200-01-01T12:00:00Z")):
        namespace = cluster.kube.get("v1", "Namespace", f"tenant-{name}")
        namespace["metadata"] |= {"annotations": {EXPIRES_ANNOTATION: "1h"}, "creationTimestamp": created}
        cluster.kube.put(namespace)
    found = cluster.compare()
    assert found["unlisted"] == ["ci-1"]
    assert found["temporary"] == [
        {"name": "ci-1", "expires": "2026-01-01T13:00:00Z", "expired": True},
        {"name": "ci-2", "expires": "2200-01-01T13:00:00Z", "expired": False},
    ]
    # While it is worked on, it is listed.
    cluster.tenants.append(desired("ci-1", expires="1h"))
    found = cluster.compare()
    assert (found["unlisted"], [one["name"] for one in found["temporary"]]) == ([], ["ci-1", "ci-2"])


def test_who_uses_the_shared_scheduler(host):
    cluster = host("ml", objects=[*host_kai(), *on_host("a", shared=True), *on_host("b", shared=True)])
    cluster.tenants.append(desired("a", scheduler={"name": "kai", "shared": True}))
    for queue in parse([{"name": "q"}, {"name": "of-b"}]).values():
        cluster.kube.put(manifest(queue))
    found = cluster.compare()
    assert (found["shared_scheduler"], found["sharing"]) == ("v0.13.1", ["a", "b"])
    assert [[queue["name"] for queue in tenant["queues"]] for tenant in found["tenants"]] == [["q"], ["q"]]
    none = host("ml").compare()
    assert (none["shared_scheduler"], none["sharing"]) == (None, [])


def test_tenants_that_share_a_scheduler_are_verified_again_when_it_changes(host):
    cluster = host(objects=[*host_kai(), *on_host("a", shared=True)])
    cluster.tenants.append(desired("a", scheduler={"name": "kai", "shared": True}))
    (tenant,) = tenants_from(cluster.tenants)
    record(cluster.kube, "a", wanted(tenant, {}), RESULTS, datetime.datetime.now(datetime.timezone.utc), False, KAI_VERSION)
    cluster.kube.writes.clear()
    (cluster.folder / "a.yml").write_text(yaml.safe_dump(kubeconfig("a")))
    assert cluster.due() == {"a": NOTHING}
    cluster.kube.drop("v1", "Pod", "host-scheduler", "kai-scheduler")
    assert cluster.due()["a"][0] == ["change", "verify"]


def test_wrong_tenants_are_refused_with_all_problems(host):
    with pytest.raises(TenancyError) as caught:
        host().compare(tenants=[{"name": "ml"}, {"name": "B", "trust": "x"}])
    assert len(caught.value.problems) == 3


# --- tenant_record -----------------------------------------------------------------------------------------------


def test_the_module_that_records(host):
    cluster = host("ml")
    cluster.kube.drop("v1", "ConfigMap", "kubegpu-verified", "tenant-ml")
    (before,) = cluster.compare()["tenants"]
    assert (before["verified_at"], before["results"]) == (None, [])
    params = {"name": "ml", "wanted": before["wanted"], "results": RESULTS, "scheduler_version": KAI_VERSION}
    tenant_record.reconcile(Run(params, True, cluster.kube))
    assert cluster.kube.writes == []
    written = tenant_record.reconcile(Run(params, False, cluster.kube))
    cluster.kube.writes.clear()
    assert not written["changed"]
    assert written.keys() - yaml.safe_load(tenant_record.RETURN).keys() == {"changed", "diff", "seconds"}
    (after,) = cluster.compare()["tenants"]
    assert (after["due"], after["verified_at"], after["results"]) == ([], written["at"], RESULTS)


def test_the_folder_of_kubeconfigs_is_the_owners_alone(host):
    cluster = host("ml")
    cluster.folder.chmod(0o700)
    assert cluster.compare()["has_folder"] is True
    cluster.folder.chmod(0o750)
    assert cluster.compare()["has_folder"] is False
    assert cluster.compare(kubeconfigs=str(cluster.folder / "ml.yml"))["has_folder"] is False
    assert cluster.compare(kubeconfigs=str(cluster.folder / "gone"))["has_folder"] is False


def test_nodes_that_tenants_have_to_be_given(host):
    cluster = host("ml", objects=[node("n1", gpus=2)])
    assert cluster.compare()["nodes_due"] is False
    cluster.tenants[0]["gpu_nodes"] = {"names": ["n1"]}
    found = cluster.compare()
    assert (found["nodes_due"], found["node_problems"]) == (True, [])
    cluster.tenants[0]["gpu_nodes"] = {"names": ["n9"]}
    found = cluster.compare()
    assert found["nodes_due"] is True
    (problem,) = found["node_problems"]
    assert problem["code"] == "no-gpu-node"
    assert problem["text"].startswith("kubegpu_tenants[0] (ml).gpu_nodes.names[0]: ")


def test_nodes_that_cannot_be_read_are_an_error(host, monkeypatch):
    cluster = host("ml")

    def fail(_kube, _nodes, _tenants):
        raise ApiError("Listing Service failed: no answer.", status=None)

    monkeypatch.setattr(lifecycle, "live_claims", fail)
    with pytest.raises(TenancyError, match="no answer"):
        cluster.compare()


class Whole(Run):
    """A run of the module, whose parts have the same API server."""

    def part(self, params):
        return Run(params, self.check_mode, kube=self.kube)


def test_the_cluster_and_the_ledger_are_read_in_the_same_process(host):
    cluster = host("ml", objects=[node("n9")])
    of_cluster = {"runtime_class": "", "shared_scheduler": {}, "metrics": {}, "accept_combinations": [], "helm_binary": "helm"}
    params = {"kubeconfigs": str(cluster.folder), "settings": {}, "max_age": 3600, "only": [], "also": ["ledger", "cluster"]}
    params |= {"tenants": [desired("ml", trust="zero")], **of_cluster}
    found = tenancy_info.reconcile(Whole(params, True, cluster.kube))
    assert [row["tenant"] for row in found["ledger"]["tenants"]] == ["ml"]
    assert {"problems", "notes", "kubernetes_version"} <= found["cluster"].keys()


def test_a_ledger_that_cannot_be_read_is_no_failure_of_the_tenants(host, monkeypatch):
    def fail(*_args):
        raise ApiError("No.", status=403)

    cluster = host("ml")
    monkeypatch.setattr(tenancy_info.gpu_ledger_info, "configs", fail)
    params = {"tenants": cluster.tenants, "kubeconfigs": str(cluster.folder), "settings": {}, "max_age": 3600, "only": []}
    found = tenancy_info.reconcile(Whole(params | {"also": ["ledger"]}, kube=cluster.kube))
    assert found["ledger"] == {"failed": True, "msg": "No."}
    assert [one["name"] for one in found["tenants"]] == ["ml"]


def test_a_cluster_that_is_yet_to_be_made(host, tmp_path):
    found = tenancy_info.reconcile(Run({"kubeconfig": str(tmp_path / "none.yml")}))
    assert (found["exists"], found["changed"], "tenants" in found) == (False, False, False)


# --- Volcano -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reasons"),
    [
        ([volcano_manifest(queue) for queue in read_queues([{"name": "q"}]).values()], []),
        ([], ["its queues differ: q"]),
        (TenancyError("no route to host"), ["its queues cannot be read: no route to host"]),
        ([{"metadata": {"name": "old", "labels": dict(OWNED_LABELS)}, "spec": {}}], ["its queues differ: old, q"]),
        (
            [{"metadata": {"name": "odd"}, "spec": 5}],
            ["its queues differ: queue odd cannot be read: its spec has not the form of a queue's"],
        ),
    ],
)
def test_queues_of_volcano_are_compared_from_within(host, monkeypatch, answer, reasons):
    cluster = host("ml", scheduler={"name": "volcano", "version": "1.10.0"}, queues=[{"name": "q"}], gpu_nodes={})

    def ask(_config, path, timeout):
        assert path == "/apis/scheduling.volcano.sh/v1beta1/queues"
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(tenancy_info, "ask_list", ask)
    (found,) = cluster.compare()["tenants"]
    assert found["reasons"] == reasons
    assert found["due"] == (["change", "verify"] if reasons else [])
