# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, WaitTimeout
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import tenant as engine
from ansible_collections.kubegpu.tenancy.plugins.modules import tenants as module
from ansible_collections.kubegpu.tenancy.tests.unit.parts import DEFAULTS, Parts
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

KAI = {"name": "kai", "version": "v0.16.8", "gpu_sharing": True, "values": {"token": "hunter2"}}
QUEUES = [{"name": "ml", "gpu": {"quota": 2}}]
ML = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": KAI, "queues": QUEUES}
WEB = {"name": "web", "trust": "partial"}
OTHER = WEB | {
    "name": "batch",
    "scheduler": {"name": "yunikorn", "version": "1.13.0", "chart": "yunikorn", "repository": "https://x.example"},
}
SHARING = {
    "name": "vision",
    "trust": "high",
    "gpu_nodes": {"labels": {"pool": "a"}, "shared_gpus": 2, "share_gpus_with": "any"},
    "scheduler": {"name": "kai", "shared": True},
    "queues": [{"name": "vision"}],
}


@pytest.fixture
def parts(monkeypatch):
    return Parts(monkeypatch)


def diff(**after):
    return {"changed": True, "diff": {"before": {}, "after": after}}


def test_a_tenant_with_its_own_kai_scheduler(parts):
    report = parts.bring(ML, metrics={"provider": "annotations", "namespace": "monitoring"})
    assert parts.names == ["vcluster", "kai_metrics", "vcluster_kubeconfig", "former_schedulers", "kai_scheduler", "kai_queues"]
    assert [kubeconfig for _name, kubeconfig, _params in parts.calls] == [None, None, None, *["/k/ml.yml"] * 3]
    assert (report.failure, report.changed, list(report.parts)) == (
        "",
        False,
        ["virtual cluster", "metrics", "kubeconfig", "schedulers that are not wanted", "KAI Scheduler", "queues"],
    )
    assert parts.options("vcluster")["own_scheduler"] is True
    assert parts.options("vcluster")["node_selector"] == {"tenant.kubegpu.tenancy/ml": "true"}
    assert parts.options("vcluster_kubeconfig")["path"] == "/k/ml.yml"
    assert parts.options("kai_scheduler")["version"] == parts.options("kai_queues")["kai_version"] == "v0.16.8"
    assert parts.options("kai_queues")["state"] == "exact"


def test_a_tenant_without_a_scheduler_loses_former_ones(parts):
    parts.bring(WEB)
    assert parts.names == ["vcluster", "kai_metrics", "vcluster_kubeconfig", "kai_scheduler", "former_schedulers"]
    assert (parts.options("kai_scheduler")["state"], parts.options("kai_scheduler")["purge"]) == ("absent", True)
    assert parts.options("kai_metrics")["state"] == "absent"


def test_a_new_tenant_has_nothing_that_is_not_wanted(parts):
    parts.answers["vcluster"] = diff(namespace="tenant-web", state="running")
    assert parts.bring(WEB).changed
    assert parts.names == ["vcluster", "vcluster_kubeconfig"]


def test_another_scheduler_is_installed_by_its_chart_and_kept(parts):
    parts.bring(OTHER)
    assert parts.names[3:] == ["kai_scheduler", "former_schedulers", "chart_scheduler"]
    assert parts.options("former_schedulers")["keep"] == ["yunikorn"]
    assert parts.options("chart_scheduler")["repository"] == "https://x.example"


@pytest.mark.parametrize(("shared", "divides"), [({"gpu_sharing": True}, True), ({"gpu_sharing": False}, False), ({}, False)])
def test_a_tenant_of_the_shared_scheduler_divides_gpus_as_that_does(parts, shared, divides):
    parts.bring(SHARING, shared_scheduler=shared)
    options = parts.options("vcluster")
    assert (options["host_scheduler"], options["own_scheduler"], options["gpu_quota"]) == ("kai", False, 2)
    assert (options["gpu_sharing"], options["host_queues"]) == (divides, [{"name": "vision"}])


def test_a_change_of_its_kai_scheduler_may_need_a_rehearsal(parts):
    verdicts = [{"name": "v"}]
    parts.answers["rehearsal_gate"] = TenancyError("It has to be rehearsed before.")
    report = parts.bring(ML, rehearsal={"verdicts": verdicts, "max_age": 7, "accept_holds": []})
    assert report.failure == "Refuse a change that no rehearsal promoted: It has to be rehearsed before."
    assert parts.names[-1] == "rehearsal_gate"
    assert (parts.options("rehearsal_gate")["verdicts"], parts.options("rehearsal_gate")["max_age"]) == (verdicts, 7)


@pytest.mark.parametrize(
    ("answers", "names"),
    [
        # One that does not exist yet, or does not run: it has no address.
        ({"vcluster": diff(namespace="tenant-ml", state="running")}, ["vcluster"]),
        ({"vcluster": diff(state="running")}, ["vcluster", "kai_metrics"]),
        # One whose kubeconfig is not there yet.
        ({"vcluster_kubeconfig": diff(context="ml")}, ["vcluster", "kai_metrics", "vcluster_kubeconfig"]),
    ],
)
def test_check_mode_asks_no_virtual_cluster_that_cannot_answer(parts, answers, names):
    parts.answers |= answers
    assert parts.bring(ML, check_mode=True).failure == ""
    assert parts.names == names


def test_paused_and_absent(parts):
    parts.bring(ML | {"state": "paused"}, accept_lost_pods=True)
    assert parts.names == ["vcluster"]
    assert (parts.options("vcluster")["state"], parts.options("vcluster")["accept_lost_pods"]) == ("paused", True)
    parts.calls.clear()
    parts.bring(ML, state="absent")
    assert parts.names == ["vcluster", "vcluster_kubeconfig", "tenant_nodes"]
    assert parts.options("tenant_nodes")["tenants"] == [{"name": "ml"}]


def test_what_fails_ends_the_work_on_that_tenant_and_says_at_what(parts):
    parts.answers["kai_scheduler"] = WaitTimeout("Timed out after 300 s.", last_seen="binder 0/1")
    report = parts.bring(ML)
    assert report.failure == "Install or upgrade KAI Scheduler: Timed out after 300 s."
    told = {"failed": True, "msg": "Timed out after 300 s.", "last_seen": "binder 0/1"}
    assert {key: report.parts["KAI Scheduler"][key] for key in told} == told
    # What was done before it failed was done.
    assert report.parts["KAI Scheduler"]["changed"] is False
    assert "queues" not in report.parts


def test_a_defect_is_one_tenants_failure(parts):
    parts.answers["vcluster"] = KeyError("spec")
    report = parts.bring(ML)
    assert report.failure.startswith("Create or change the virtual cluster: KeyError: 'spec'\nThis is a defect of the collection")
    assert "Traceback" in report.parts["virtual cluster"]["traceback"]


def test_values_of_charts_are_shown_by_their_digests(parts):
    parts.answers["kai_scheduler"] = {"values": {"token": "hunter2"}} | diff(**{"values.token": "hunter2"})
    report = parts.bring(ML)
    assert "hunter2" not in str(report.data())
    assert report.parts["KAI Scheduler"]["values"]["token"].startswith("digest ")


# --- verification ------------------------------------------------------------------------------------------------

PASSED = {"results": [{"name": "gpu", "verdict": "passed"}]}


def test_its_own_kai_scheduler_is_checked_and_what_was_seen_is_recorded(parts):
    parts.answers["kai_scheduling"] = PASSED
    assert parts.verify(ML).failure == ""
    assert parts.names == ["kai_scheduling", "tenant_record"]
    assert parts.options("kai_scheduling")["checks"] == [
        "cpu",
        "gpu",
        "gang",
        "gang_too_large",
        "over_limit",
        "fraction",
        "burst",
    ]
    # No record inside the tenant stands in for it: its administrator could have written one.
    assert parts.options("kai_scheduling")["max_age"] is None
    record = parts.options("tenant_record")
    assert (record["wanted"], record["results"], record["scheduler_version"]) == ("digest", PASSED["results"], "v0.16.8")


def test_what_was_accepted_need_not_be_found_out(parts):
    parts.verify(ML | {"scheduler": KAI | {"accept_hazards": ["#1103"]}}, policy_checks=["quota"])
    assert parts.names == ["kai_scheduling", "kai_policies"]
    assert "burst" not in parts.options("kai_scheduling")["checks"]
    assert parts.options("kai_policies")["checks"] == ["quota"]


@pytest.mark.parametrize(
    ("tenant", "shared", "scheduler_name", "checks"),
    [
        (WEB, {}, None, None),
        (OTHER, {}, "yunikorn", None),
        (SHARING, {"gpu_sharing": True}, "kai-scheduler", ["queue", "devices", "gpu", "fraction"]),
        (SHARING, {"gpu_sharing": False}, "kai-scheduler", ["queue", "devices", "gpu"]),
        (WEB | {"gpu_nodes": {"names": ["n"], "shared_gpus": 1}}, {}, None, ["devices"]),
    ],
)
def test_a_tenant_without_its_own_kai_scheduler_is_checked_by_a_page_and_by_what_it_shares(
    parts, tenant, shared, scheduler_name, checks
):
    parts.answers |= {"web": PASSED, "shared_scheduler": PASSED}
    parts.verify(tenant, shared_scheduler=shared)
    assert parts.names == ["web", *(["shared_scheduler"] if checks else []), "tenant_record"]
    assert parts.options("web")["scheduler_name"] == scheduler_name
    if checks:
        assert parts.options("shared_scheduler")["checks"] == checks
        assert parts.options("tenant_record")["results"] == PASSED["results"] * 2


def test_services_that_its_network_lets_through_are_reached(parts):
    service = {"name": "registry", "namespace": "r", "ports": [443]}
    parts.verify(WEB | {"network": {"egress": [service]}})
    assert parts.names == ["web", "connectivity"]


def test_a_sandbox_is_verified_by_what_a_pod_sees(parts):
    parts.verify(WEB | {"sandbox": {"runtime_class": "kata"}})
    assert parts.names == ["web", "sandbox"]
    assert parts.options("sandbox")["runtime_class"] == "kata"


def test_a_check_that_failed_ends_the_verification_and_is_recorded(parts):
    failed = {"results": [{"name": "page", "verdict": "failed"}]}
    parts.answers["web"] = TenancyError("1 of 1 checks failed.", **failed)
    report = parts.verify(SHARING)
    assert report.failure == (
        "Verify that a web page is served, by pods that the tenant's scheduler places: 1 of 1 checks failed."
    )
    assert parts.names == ["web", "tenant_record"]
    assert parts.options("tenant_record")["results"] == failed["results"]


def test_a_later_probe_that_died_is_recorded_as_failed(parts):
    parts.answers |= {"web": PASSED, "shared_scheduler": TenancyError("The API server cannot be reached.")}
    parts.verify(SHARING)
    died = {
        "name": "checks of what is shared",
        "verdict": "failed",
        "reason": "The API server cannot be reached.",
        "seconds": 0.0,
    }
    assert parts.options("tenant_record")["results"] == [*PASSED["results"], died]


def test_a_probe_that_died_leaves_the_record_before(parts):
    parts.answers["web"] = TenancyError("The API server cannot be reached.")
    parts.verify(WEB)
    assert parts.names == ["web"]


# --- several tenants ---------------------------------------------------------------------------------------------


class Whole(Run):
    def __init__(self, parts, **params) -> None:
        super().__init__(DEFAULTS | params)
        self.part = parts.start


def test_all_are_worked_on_and_a_failure_stops_no_other(parts, monkeypatch):
    def fail_for_web(run):
        if run.params["name"] == "web":
            raise TenancyError("No.")
        return diff(version="0.36.1")

    monkeypatch.setattr(engine.vcluster, "reconcile", fail_for_web)
    with pytest.raises(TenancyError) as caught:
        module.reconcile(Whole(parts, tenants=[ML, WEB, OTHER]))
    assert caught.value.message == "web: Create or change the virtual cluster: No."
    found = caught.value.details
    assert [(one["name"], one["failure"] == "", one["changed"]) for one in found["tenants"]] == [
        ("web", False, False),
        ("ml", True, True),
        ("batch", True, True),
    ]
    assert found["changed"] is True
    assert found["diff"][0]["before_header"] == "ml: virtual cluster"


def test_of_one_that_goes_the_name_is_enough(parts):
    result = module.reconcile(Whole(parts, names=["old"], state="absent"))
    assert [one["name"] for one in result["tenants"]] == ["old"]
    assert parts.options("vcluster")["state"] == "absent"


def test_each_tenant_gets_what_is_due_for_it(parts):
    due = {"ml": ["verify"], "web": ["change"]}
    module.reconcile(Whole(parts, tenants=[ML, WEB, OTHER], due=due, work=["verify"]))
    assert sorted(parts.names) == ["kai_scheduling", "web"]


def test_what_was_not_changed_as_wanted_is_not_recorded_as_that(parts):
    parts.answers["kai_scheduling"] = PASSED
    wanted = {"ml": "digest"}
    for due, work, recorded in (
        (["change", "verify"], ["verify"], False),
        (["verify"], ["change", "verify"], True),
        (["change", "verify"], ["change", "verify"], True),
    ):
        parts.calls.clear()
        module.reconcile(Whole(parts, tenants=[ML], due={"ml": due}, work=work, wanted=wanted))
        assert ("tenant_record" in parts.names) is recorded


def test_check_mode_verifies_no_tenant_that_is_yet_to_be_made(parts):
    parts.answers["vcluster"] = diff(namespace="tenant-ml", state="running")
    run = Whole(parts, tenants=[ML])
    run.check_mode = True
    module.reconcile(run)
    assert parts.names == ["vcluster"]


@pytest.mark.parametrize("name", ["../x", "", "a b", "ML"])
def test_what_is_no_name_of_a_tenant_is_refused(parts, name):
    with refuses("not-a-name"):
        module.reconcile(Whole(parts, names=["old", name], state="absent"))
    assert parts.calls == []


def test_one_that_is_named_twice_is_removed_once(parts):
    module.reconcile(Whole(parts, names=["old", "old"], state="absent"))
    assert parts.names.count("vcluster") == 1


def test_one_that_is_paused_or_failed_is_not_verified(parts):
    module.reconcile(Whole(parts, tenants=[ML | {"state": "paused"}]))
    assert parts.names == ["vcluster"]
    parts.answers["vcluster"] = TenancyError("No.")
    with pytest.raises(TenancyError):
        module.reconcile(Whole(parts, tenants=[WEB]))
    assert "web" not in parts.names


# --- Volcano -----------------------------------------------------------------------------------------------------

HPC = {"name": "hpc", "trust": "high", "scheduler": {"name": "volcano", "version": "1.10.0"}, "queues": [{"name": "weather"}]}


def test_volcano_gets_its_chart_then_its_queues(parts, tmp_path):
    parts.bring(HPC)
    assert parts.names[-2:] == ["chart_scheduler", "scheduler_queues"]
    asked = parts.options("chart_scheduler")
    assert (asked["chart"], asked["repository"]) == ("volcano", "https://volcano-sh.github.io/helm-charts")
    assert parts.options("scheduler_queues")["queues"] == [{"name": "weather"}]


def test_volcanos_chart_comes_from_where_all_charts_come_from_unless_another_one_is_named(parts):
    parts.bring(HPC, chart_source="oci://registry.example/charts")
    assert parts.options("chart_scheduler")["chart"] == "oci://registry.example/charts/volcano"
    parts.calls.clear()
    parts.bring(
        HPC | {"scheduler": HPC["scheduler"] | {"chart": "oci://own.example/v"}}, chart_source="oci://registry.example/charts"
    )
    assert parts.options("chart_scheduler")["chart"] == "oci://own.example/v"


def test_volcano_is_checked_by_gangs(parts):
    parts.answers["volcano_scheduling"] = PASSED
    parts.verify(HPC)
    assert parts.names == ["volcano_scheduling", "tenant_record"]
    assert parts.options("volcano_scheduling")["queues"] == [{"name": "weather"}]
