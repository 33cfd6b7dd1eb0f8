# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook info shows, by the variables that it leaves behind."""

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.info import FilterModule, info
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._info import PARTS, reports
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY

RACE, WEBHOOK, ENDED = "#1103: a GPU is given twice", "#104: its webhook stops pods", "end-of-support: no corrections"
ML = {
    "name": "ml",
    "trust": "high",
    "gpu_nodes": {"count": 1},
    "scheduler": {
        "name": "kai",
        "version": "v0.13.1",
        "gpu_sharing": True,
        "accept_hazards": ["#1103", "#1673", "end-of-support"],
    },
    "queues": [{"name": "q"}],
}
WEB = {"name": "web", "trust": "partial"}
VCLUSTER = {"name": "ml", "trust": "high", "version": "0.36.1", "state": "running", "reason": "", "kubernetes_version": "v1.35.4"}
KAI = {"installed": True, "version": "v0.12.0", "status": "deployed", "ready": True, "missing": [], "long_term": True}
KAI |= {"end_of_support": "2026-12", "supported": True, "kubernetes_tested": True}
KAI |= {"hazards": [RACE, WEBHOOK], "touching_hazards": [RACE], "accepted_hazards": ["#1103"]}
POD = {
    "namespace": "default",
    "name": "big",
    "kind": "Pod",
    "queue": "q",
    "state": "pending",
    "reason": "over_limit",
    "seconds": 412,
}
POD |= {"message": "Queue q has a limit of 4 GPUs.", "advice": "Ask for less.", "since": "2026-11-22T12:30:00Z"}
ROWS = [
    {"node": "n1", "device": "GPU-a", "tenant": "ml", "pod": "default/train", "part": 1.0},
    {"node": "n1", "device": "GPU-b", "tenant": "", "pod": "", "part": 0.0},
    {"node": "n2", "device": None, "tenant": "", "pod": "default/old", "part": 0.0},
]
LEDGER = {
    "nodes": [{"node": "n1", "tenants": ["ml"]}, {"node": "n2", "tenants": []}],
    "devices": ROWS,
    "products": [],
    "unread": [],
    "overlaps": [],
}


def gpu(quota, limit, allocated, requested, weight=1):
    return {"quota": quota, "limit": limit, "over_quota_weight": weight, "allocated": allocated, "requested": requested}


TREE = [
    {"name": "q", "priority": 100, "gpu": gpu(4, "unlimited", 1.5, 3)}
    | {"children": [{"name": "jobs", "priority": 50, "gpu": gpu(3, 4, 1.5, 3, 2), "children": []}]}
]


class Read:
    """Ansible's hostvars and groups after the playbook read one cluster."""

    def __init__(self, tenants=(ML,), found=None, name="gpu1", **variables):
        self.hostvars, self.clusters = {}, []
        self.cluster(tenants, found, name, **variables)

    def cluster(self, tenants=(ML,), found=None, name="gpu1", vclusters=None, shared=None, **variables):
        wanted = {"nvkind_workers": [{"count": 8}] * 4, "kubegpu_tenants": list(tenants)}
        wanted |= {key: value for key, value in variables.items() if key.startswith("kubegpu_")}
        state = desired_state(wanted, name, TODAY, installs=False).data()
        compared = [self.compared(one) for one in state["tenants"]] if found is None else found
        seen = [VCLUSTER | {"name": one["name"], "tenant": one["name"], "scheduler": {}} for one in state["tenants"]]
        self.clusters.append(name)
        self.hostvars[name] = {
            "_kubegpu": state,
            "_kubegpu_plan": {"changed": False},
            "_kubegpu_tenants": {"tenants": compared, "shared_scheduler": shared, "sharing": []},
            "_kubegpu_vclusters": {
                "vclusters": [
                    {"kubeconfig_expires": "2027-11-21T12:00:00Z"} | one for one in (seen if vclusters is None else vclusters)
                ]
            },
        } | variables
        return self

    @staticmethod
    def compared(tenant, **more):
        record = {"name": tenant["name"], "desired": tenant, "state": "running", "due": [], "reasons": []}
        return record | {"vcluster_version": "0.36.1", "scheduler_version": "v0.12.0"} | more

    def due(self, *reasons, cluster="gpu1"):
        """Have something to change for all tenants."""
        for one in self.hostvars[cluster]["_kubegpu_tenants"]["tenants"]:
            one |= {"due": ["change", "verify"], "reasons": list(reasons)}
        return self

    def tenant(self, name="ml", cluster="gpu1", **parts):
        """Have read a tenant that runs.

        :arg parts: what was read of it, by what it is.
        """
        self.hostvars[cluster].setdefault("_kubegpu_inside", {"tenants": []})["tenants"].append({"name": name, "parts": parts})
        return self

    def tried(self, failure="", cluster="gpu1", **parts):
        """Have tried to change tenant ml."""
        done = {"name": "ml", "failure": failure, "parts": {"virtual cluster": {"changed": False}} | parts}
        self.hostvars[cluster] |= {"_kubegpu_previewed": True, "_kubegpu_worked": {"tenants": [done]}}
        return self

    def reports(self):
        return reports(self.hostvars, self.clusters)

    def show(self, part):
        return info(self.reports(), part)


# --- GPUs --------------------------------------------------------------------------------------------------------


def test_gpus_with_the_pods_that_have_them():
    ledger = LEDGER | {"overlaps": ["pod default/old of no tenant holds 1 GPUs of node n1, which is ml's"]}
    assert Read(_kubegpu_devices=ledger).show("gpus") == [
        "node  GPU      tenant     pod            part",
        "----  -------  ---------  -------------  -------",
        "n1    GPU-a    ml         default/train  1",
        "n1    GPU-b    free",
        "n2    unknown  no tenant  default/old    unknown",
        "",
        "pod default/old of no tenant holds 1 GPUs of node n1, which is ml's",
    ]


def test_gpus_by_product_and_node_pool():
    products = [
        {"product": "", "pool": "", "nodes": 1, "allocatable": 4, "in_use": 0},
        {"product": "NVIDIA-A100-SXM4-80GB", "pool": "a100", "nodes": 2, "allocatable": 16, "in_use": 3},
    ]
    shown = Read(_kubegpu_devices=LEDGER | {"products": products}).show("gpus")
    assert shown[-2:] == [
        "GPUs of unknown product: 0 of 4 held, on 1 nodes",
        "NVIDIA-A100-SXM4-80GB, node pool a100: 3 of 16 held, on 2 nodes",
    ]
    only = Read([ML, WEB], kubegpu_only="ml", _kubegpu_devices=LEDGER | {"products": products})
    assert only.reports()[0]["gpus"]["products"] == []


def test_gpus_of_the_tenants_that_are_asked_for():
    read = Read([ML, WEB], kubegpu_only="ml", _kubegpu_devices=LEDGER)
    assert [row["device"] for row in read.reports()[0]["gpus"]["devices"]] == ["GPU-a", "GPU-b"]
    other = Read([ML, WEB], kubegpu_only="web", _kubegpu_devices=LEDGER)
    assert other.show("gpus") == ["There are no GPUs."]


# --- tenants -----------------------------------------------------------------------------------------------------


def test_versions_with_their_hazards_and_the_end_of_their_support():
    read = Read([ML, WEB]).tenant(scheduler=KAI).tenant("web", scheduler={"installed": False})
    assert read.show("tenants") == [
        "tenant  state    trust  vcluster  kubernetes  scheduler               support ends  kubeconfig until",
        "------  -------  -----  --------  ----------  ----------------------  ------------  --------------------",
        "ml      running  high   0.36.1    v1.35.4     kai v0.12.0 -> v0.13.1  2026-12       2027-11-21T12:00:00Z",
        "web     running  high   0.36.1    v1.35.4     cluster's own                         2027-11-21T12:00:00Z",
        "",
        f"ml: accepted hazard: {RACE}",
        f"ml: hazard of the release, not of what is installed: {WEBHOOK}",
    ]


def test_what_is_not_as_it_should_be():
    kai = KAI | {"status": "failed", "missing": ["Deployment binder does not exist"], "kubernetes_tested": False}
    kai |= {
        "supported": False,
        "end_of_support": "2026-03",
        "hazards": [ENDED],
        "touching_hazards": [ENDED],
        "accepted_hazards": [],
    }
    seen = VCLUSTER | {"tenant": "ml", "scheduler": None, "reason": "ml-0 starts"}
    lines = Read(vclusters=[seen]).tenant(scheduler=kai).show("tenants")
    assert "2026-03, over" in lines[2]
    assert lines[4:] == [
        "ml: note: ml-0 starts",
        "ml: note: its Helm release is failed",
        "ml: note: Deployment binder does not exist",
        "ml: note: upstream does not test KAI Scheduler v0.12.0 with this version of Kubernetes",
        f"ml: hazard, not accepted: {ENDED}",
    ]


@pytest.mark.parametrize(
    ("scheduler", "shown"), [({"name": "kai", "version": "v0.13.1"}, "kai v0.13.1"), ({}, "cluster's own"), (None, "unknown")]
)
def test_a_tenant_that_is_not_listed(scheduler, shown):
    left = VCLUSTER | {"tenant": "left", "state": "paused", "scheduler": scheduler}
    others = VCLUSTER | {"tenant": None}
    (tenant,) = Read([], vclusters=[left, others]).reports()[0]["tenants"]
    assert (tenant["name"], tenant["state"], tenant["scheduler"], tenant["kai"]) == ("left", "paused", shown, None)
    assert Read([], vclusters=[left]).show("tenants")[-1] == "left: note: made by this collection, not listed"
    assert Read([ML], vclusters=[left], kubegpu_only="ml").reports()[0]["tenants"][0]["name"] == "ml"


def test_a_tenant_that_is_listed_and_not_there():
    found = [
        Read.compared(
            desired_state({"nvkind_workers": [{"count": 8}], "kubegpu_tenants": [ML]}, "x", TODAY, installs=False).data()[
                "tenants"
            ][0]
        )
    ]
    found[0] |= {
        "state": "absent",
        "vcluster_version": None,
        "scheduler_version": None,
        "due": ["change"],
        "reasons": ["it is absent"],
    }
    read = Read(found=found, vclusters=[])
    assert read.show("tenants")[2].split() == ["ml", "absent", "high", "->", "0.36.1", "kai", "->", "v0.13.1"]
    assert read.show("preview")[2:] == ["ml      absent  -> 0.36.1  kai -> v0.13.1  not tried", "", "ml: it is absent"]


def test_the_scheduler_that_tenants_share_is_shown_beside_them():
    read = Read([WEB], shared="v0.16.8", _kubegpu_kai=KAI | {"version": "v0.16.8"}, _kubegpu_queues={"queues": TREE}).tenant(
        "web"
    )
    assert read.show("tenants")[3].split() == ["shared", "scheduler", "kai", "v0.16.8", "2026-12"]
    assert [line.split()[:2] for line in read.show("queues")[2:]] == [["shared", "scheduler"]] * 2
    assert Read([WEB], _kubegpu_kai={"skipped": True}).reports()[0]["shared_scheduler"] is None


# --- queues and pods ---------------------------------------------------------------------------------------------


def test_queues_as_a_tree_with_what_is_used():
    assert Read().tenant(queues={"queues": TREE}).show("queues") == [
        "tenant  queue   priority  quota  limit      over-quota weight  in use  requested",
        "------  ------  --------  -----  ---------  -----------------  ------  ---------",
        "ml      q            100      4  unlimited                  1  1.5             3",
        "ml        jobs        50      3  4                          2  1.5             3",
    ]


def test_pods_that_wait_with_the_reason_and_what_to_do():
    past = POD | {"name": "sly", "queue": None, "state": "past_kai", "reason": "other_scheduler", "message": "M.", "advice": "A."}
    made = POD | {"name": "web", "kind": "Deployment", "state": "refused", "reason": "quota", "message": "Q.", "advice": "B."}
    assert Read().tenant(pods={"pods": [POD, past, made]}).show("pending") == [
        "tenant  pod                       queue  state     seconds  reason",
        "------  ------------------------  -----  --------  -------  ---------------",
        "ml      default/big               q      pending       412  over_limit",
        "ml      default/sly                      past kai      412  other_scheduler",
        "ml      default/web (Deployment)  q      refused       412  quota",
        "",
        "ml default/big: Ask for less. Queue q has a limit of 4 GPUs.",
        "ml default/sly: A. M.",
        "ml default/web (Deployment): B. Q.",
    ]


# --- the preview -------------------------------------------------------------------------------------------------

RELEASE = {"version": "v0.13.1", "hazards": [RACE, WEBHOOK], "accepted_hazards": ["#1103"]}
RELEASE |= {
    "upgrade_notes": ["helm brings no CRDs (#549)"],
    "steps": [{"step": "apply the CRDs", "why": "helm never changes them"}],
}


def test_what_an_upgrade_would_do():
    read = Read().due("something else is wanted").tried(**{"KAI Scheduler": RELEASE})
    assert read.show("preview") == [
        "tenant  state    vcluster  scheduler               preview",
        "------  -------  --------  ----------------------  -------",
        "ml      running  0.36.1    kai v0.12.0 -> v0.13.1  1 steps",
        "",
        "ml: something else is wanted",
        "ml: step: apply the CRDs (helm never changes them)",
        "ml: upgrade note: helm brings no CRDs (#549)",
        f"ml: accepted hazard: {RACE}",
        f"ml: hazard: {WEBHOOK}",
    ]


def test_another_release_than_the_inventorys_is_previewed_as_well():
    read = Read(info_release="v0.16.8").tried(**{"KAI Scheduler": RELEASE})
    assert "kai v0.12.0 -> v0.16.8" in read.show("preview")[2]
    assert "kai v0.12.0 -> v0.13.1" in read.show("tenants")[2]


def test_what_would_be_refused():
    read = Read().due("x").tried("Install KAI Scheduler: v0.13.1 is refused.")
    assert read.show("preview")[2:] == [
        "ml      running  0.36.1    kai v0.12.0 -> v0.13.1  refused",
        "",
        "ml: x",
        "ml: refused: Install KAI Scheduler: v0.13.1 is refused.",
    ]
    # It is what the preview found, not a failure of the run.
    assert read.reports()[0]["failures"] == []


@pytest.mark.parametrize(("parts", "needed"), [({}, False), ({"rehearsal": {"failed": True, "msg": "No verdict."}}, True)])
def test_a_pipeline_reads_which_tenants_need_a_rehearsal(parts, needed):
    read = Read().due("x").tried("Refused.", **parts)
    assert read.reports()[0]["tenants"][0]["preview"]["needs_rehearsal"] is needed


@pytest.mark.parametrize("read", [Read(), Read().tried(), Read().due("x")])
def test_what_was_not_tried(read):
    assert read.reports()[0]["tenants"][0]["preview"] is None


def test_what_another_playbook_of_the_run_did_is_no_preview():
    read = Read().due("x").tried(**{"KAI Scheduler": RELEASE})
    read.hostvars["gpu1"]["_kubegpu_previewed"] = False
    assert read.reports()[0]["tenants"][0]["preview"] is None
    assert Read().show("preview") == ["Nothing would be changed."]


# --- what could not be read, and several clusters ------------------------------------------------------------------


def test_what_could_not_be_read_is_told_and_is_not_nothing():
    failed = {"msg": "The Kubernetes API cannot be reached", "changed": False}
    read = Read(_kubegpu_devices=LEDGER | {"unread": ["n2: no device plugin runs there"]}).tenant(pods=failed)
    assert read.reports()[0]["failures"] == [
        "gpu1: n2: no device plugin runs there",
        "gpu1/ml: why its pods wait was not read: The Kubernetes API cannot be reached",
    ]
    assert read.show("pending") == [
        "FAILED gpu1: n2: no device plugin runs there",
        "FAILED gpu1/ml: why its pods wait was not read: The Kubernetes API cannot be reached",
    ]
    gpus = "gpu1: who has which GPUs was not read: "
    assert Read(_kubegpu_devices=failed).show("gpus") == [f"FAILED {gpus}The Kubernetes API cannot be reached"]
    # What is registered of a module that died, where the task may fail.
    died = {"failed": False, "changed": False, "failed_when_result": False, "failed_when_suppressed_exception": "(traceback)"}
    assert Read(_kubegpu_devices=died).show("gpus") == [f"FAILED {gpus}the module died, see the output above"]
    told = "gpu1: its KAI Scheduler was not read: The Kubernetes API cannot be reached"
    assert Read(_kubegpu_kai=failed).reports()[0]["failures"] == [told]


@pytest.mark.parametrize(
    ("variables", "missing", "told"),
    [
        ({"_kubegpu_failure": "Require the cluster: gpu1 has no kubeconfig"}, (), "Require the cluster: gpu1 has no kubeconfig"),
        ({"_kubegpu_plan": {"failed": True, "msg": "2 problems:\na\nb"}}, ("_kubegpu",), "2 problems:\n  a\n  b"),
        ({}, (), "it was not reached, see the output above"),
    ],
)
def test_a_cluster_that_could_not_be_read(variables, missing, told):
    read = Read(**variables)
    for name in ("_kubegpu_vclusters", "_kubegpu_tenants", *missing):
        del read.hostvars["gpu1"][name]
    assert {part: read.show(part) for part in PARTS} == {part: [f"FAILED gpu1: {told}"] for part in PARTS}


def test_several_clusters_are_told_apart():
    read = Read(_kubegpu_devices=LEDGER | {"overlaps": ["x"]}).cluster(name="gpu2", _kubegpu_devices=LEDGER)
    kai = KAI | {"hazards": [RACE]}
    for cluster in ("gpu1", "gpu2"):
        read.due("y", cluster=cluster).tenant(cluster=cluster, scheduler=kai, pods={"pods": [POD]})
    assert [line.split()[0] for line in read.show("gpus")[2:8]] == ["gpu1"] * 3 + ["gpu2"] * 3
    assert read.show("gpus")[-1] == "gpu1: x"
    assert read.show("tenants")[-1] == f"gpu1/ml, gpu2/ml: accepted hazard: {RACE}"
    assert read.show("pending")[-1] == "gpu2: ml default/big: Ask for less. Queue q has a limit of 4 GPUs."
    assert read.show("preview")[-1] == "gpu2/ml: y"


def test_alerts_that_fire_are_shown_with_their_labels():
    firing = {"name": "KubegpuSchedulerMissing", "severity": "critical", "labels": {"namespace": "tenant-ml"}}
    read = Read(_kubegpu_alerts={"alerts": [firing]})
    assert read.reports()[0]["alerts"] == [firing]
    assert read.show("alerts")[-1].split() == ["KubegpuSchedulerMissing", "critical", "namespace=tenant-ml"]
    # No server was asked.
    assert Read().reports()[0]["alerts"] is None
    assert Read().show("alerts")[-1] == "its kubegpu_usage has no url, at which alerts would be read"
    failed = Read(_kubegpu_alerts={"msg": "it cannot be read", "changed": False})
    assert failed.show("alerts")[-1] == "FAILED gpu1: which alerts fire was not read: it cannot be read"


def test_all_of_it_is_plain_data():
    read = Read(_kubegpu_devices=LEDGER).tenant(scheduler=KAI, queues={"queues": TREE}, pods={"pods": [POD]})
    assert json.loads(json.dumps(read.reports())) == read.reports()
    assert FilterModule().filters().keys() == {"info", "info_reports"}
