# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks leave in Ansible's variables at the end of a run, for tests of what is made of it."""

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._reports import reports
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY

KAI = {"name": "kai", "version": "v0.16.8"}
ML = {
    "name": "ml",
    "trust": "high",
    "gpu_nodes": {"count": 1},
    "scheduler": KAI,
    "queues": [{"name": "ml", "children": [{"name": "training"}, {"name": "notebooks"}]}],
}
WEB = {"name": "web", "trust": "partial"}
ASKED = {"due": [], "reasons": []}


def check(name, verdict="passed", reason="", queue="training"):
    return {"name": name, "queue": queue, "verdict": verdict, "reason": reason, "seconds": 1.0}


PASSED = [check("gpu"), check("gang"), check("gpu", queue="notebooks")]


def live(name="ml", **more):
    """Return a tenant as tenancy_info returns it, as asked."""
    record = {"name": name, "state": "running", "vcluster_version": "0.36.1", "scheduler_version": "v0.16.8", "results": PASSED}
    return record | ASKED | {"network_policies": None} | more


def node(name, *tenants, allocatable=8, in_use=0, gpus=()):
    """Return a node as gpu_ledger_info returns it; only the GPUs that are given are drawn."""
    return {
        "node": name,
        "tenants": list(tenants),
        "allocatable": allocatable,
        "in_use": in_use,
        "gpus": list(gpus),
        "others": {},
    }


# Where the playbooks keep what was done for tenants that stay, and for tenants that go.
WORKED, REMOVED = "_kubegpu_worked", "_kubegpu_removed"

GONE = {"state": "absent", "vcluster_version": None, "scheduler_version": None, "results": []}


class Inventory:
    """What Ansible's hostvars hold at the end of a run, and the clusters of the run."""

    def __init__(self) -> None:
        self.hostvars: dict[str, dict] = {}
        self.clusters: list[str] = []

    def cluster(self, tenants=(ML,), found=None, name="gpu1", unlisted=(), shared=None, nodes=None, variables=(), **host):
        """Have a cluster that a run got to the end of.

        :arg found: its tenants as tenancy_info returned them; as asked, when not given.
        """
        wanted = {"nvkind_workers": [{"count": 8}] * 4, "kubegpu_tenants": list(tenants)} | dict(variables)
        found = [live(tenant["name"]) for tenant in tenants] if found is None else found
        nodes = [node("n1", "ml", in_use=3)] if nodes is None else nodes
        self.clusters.append(name)
        self.hostvars[name] = {
            "_kubegpu": desired_state(wanted, name, TODAY).data(),
            "_kubegpu_plan": {"changed": False},
            "_kubegpu_tenants": {"tenants": found, "unlisted": list(unlisted), "shared_scheduler": shared, "sharing": []},
            "_kubegpu_ledger": {"nodes": nodes, "overlaps": []},
        } | host
        return self

    def worked(self, tenant="ml", cluster="gpu1", register=WORKED, failure="", spans=(), parts=None):
        """Have a tenant that the run worked on.

        :arg parts: what module tenants did for it, by what each part is about.
        """
        report = {"name": tenant, "failure": failure, "spans": list(spans), "parts": parts or {}}
        self.hostvars[cluster].setdefault(register, {"tenants": []})["tenants"].append(report)
        return self

    def done(self, tenant, cluster="gpu1"):
        """Return what was done for a tenant, by what each part is about."""
        (report,) = [one for one in self.hostvars[cluster][WORKED]["tenants"] if one["name"] == tenant]
        return report["parts"]

    def without(self, cluster, *variables):
        for variable in variables:
            del self.hostvars[cluster][variable]
        return self

    def reports(self):
        return reports(self.hostvars, self.clusters)


# --- two clusters, with much of what there can be ----------------------------------------------------------------

# When the evidence of them is written; work on them began 150 seconds before, in Unix time.
AT = "2026-11-24T10:00:00Z"
BEGAN = 1795514400.0 - 150
MADE = {
    "created": "2026-11-20T10:00:00Z",
    "verified_at": "2026-11-24T09:58:00Z",
    "wanted": "0123456789abcdef",
    "images": {"ghcr.io/loft-sh/vcluster-oss:0.36.1": "sha256:" + "4c" * 32},
}
BLUEPRINT = {"name": "gpu-host-2026-11-23", "digest": "sha256:" + "5d" * 32, "overridden": ["ml.scheduler.version"]}
COMBINATION = (
    "ml: kai-kubernetes: KAI Scheduler v0.14.7 is tested upstream with Kubernetes 1.31 to 1.35, and here it is v1.36 (SUPPORT.md)"
)
RACE = "#1103: when pods that share GPUs start at once, a GPU's reservation can be taken away"


def queue(name, quota, limit, allocated, *children, requested=None):
    """Return a queue as kai_queues_info returns it."""
    none = {
        "quota": 0,
        "limit": "unlimited",
        "over_quota_weight": 1,
        "allocated": 0,
        "requested": 0,
        "allocated_non_preemptible": 0,
    }
    gpu = none | {"quota": quota, "limit": limit, "allocated": allocated, "requested": requested or allocated}
    about = {"name": name, "owned": True, "parent": None, "priority": 100, "display_name": None}
    return about | {"gpu": gpu, "cpu": none, "memory": none, "children": list(children)}


def held(tenant, nodes, promised, in_use, shares=None, quota=None, shared_with=()):
    """Return what a tenant has of GPUs as gpu_ledger_info returns it."""
    counts = {"requested": in_use, "reserved": 0, "in_use": in_use, "shares": float(in_use if shares is None else shares)}
    about = {"tenant": tenant, "nodes": nodes, "promised": promised, "quota": quota, "others": {}, "claimed": 0}
    return about | counts | {"shared_with": list(shared_with)}


def spans(*timed):
    return [{"work": work, "began": BEGAN + start, "seconds": seconds} for work, start, seconds in timed]


def two_clusters():
    """A made GPU host with a check that failed, and a cluster with nodes that tenants share, a pause and something left to do."""
    inventory = Inventory()
    _gpu1(inventory)
    _gpu2(inventory)
    return inventory


# What values of a chart may hold.
SECRET = "hunter2"


def drifted():
    """The same two, in check mode, with much of what can differ."""
    inventory = two_clusters()
    gpu1, ml = inventory.hostvars["gpu1"], inventory.done("ml")
    runtimes = {"nvidia": {"path": "nvidia-container-runtime", "args": []}}
    file, settings = "/etc/docker/daemon.json", "/etc/docker/daemon.json.runtimes"
    owner = {"since": "2026-11-24T08:15:00Z", "by": "owner root"}
    helm = {"since": "2026-11-24T09:31:12Z", "by": "Helm, revision 4"}
    gpu1["_docker_nvidia_runtime_docker"] = {
        "changed": True,
        "diff": {"before": {}, "after": {settings: runtimes}, "written": {settings: owner}},
        "steps": [{"step": f"write {file}", "why": "it does not have the settings"}],
    }
    gpu1["_kubegpu_nodes"] = {
        "changed": True,
        "diff": {"before": {"gpu1-worker": []}, "after": {"gpu1-worker": ["ml"]}},
        "steps": [{"step": "label node gpu1-worker", "why": "it is to belong to ml"}],
    }
    ml["KAI Scheduler"] |= {
        "changed": True,
        "diff": {
            "before": {"version": "v0.13.1", "values.password": SECRET},
            "after": {"version": "v0.14.7"},
            "written": {"version": helm, "values.password": helm},
        },
        "steps": [
            {"step": "apply the CRDs", "why": "helm installs them once and never changes them"},
            {"step": "upgrade to v0.14.7", "why": "as asked, with all values"},
        ],
    }
    gone = {"before": {"namespace": "tenant-left"}, "after": {}}
    steps = [{"step": "remove namespace tenant-left", "why": "it exists"}]
    inventory.worked("left", register=REMOVED, parts={"virtual cluster": {"changed": True, "diff": gone, "steps": steps}})
    return inventory


def _gpu1(inventory):
    old = {"name": "kai", "version": "v0.13.1", "gpu_sharing": True, "accept_hazards": ["#1103", "#1673", "end-of-support"]}
    tree = [
        {
            "name": "ml",
            "gpu": {"quota": 3, "limit": 4},
            "children": [{"name": "training", "gpu": {"quota": 2}}, {"name": "notebooks"}],
        }
    ]
    seen = "sees GPU-1b7d3f2a-0c55-5d0e-9c1f-2f8f3c1f6a10 only"
    results = [
        check("gpu", reason=seen),
        check("gang", reason="2 of 2 started"),
        check("burst", "accepted", f"a GPU is free ({RACE})"),
    ]
    failed = [
        check("gpu", "failed", "sees two GPUs <again>"),
        check("fraction", "not_tried", "no GPU is free", queue="notebooks"),
    ]
    used = [queue("ml", 3, 4, 2.75, queue("training", 2, "unlimited", 2, requested=5), queue("notebooks", 0, "unlimited", 0.75))]
    tenants = [ML | {"scheduler": old, "queues": tree}, ML | {"name": "research"}, WEB]
    found = [
        live(scheduler_version="v0.13.1", results=results, queues=used, **MADE),
        live("research", results=PASSED, due=["verify"], reasons=["not all checks passed"], queues=None, **MADE),
        live("web", scheduler_version=None, results=[check("page", queue="")], **MADE),
    ]
    nodes = [
        node("gpu1-worker", "ml", allocatable=4, in_use=3, gpus=[{"ml": 1.0}, {"ml": 1.0}, {"ml": 0.75}, {}]),
        node("gpu1-worker2", "research", allocatable=4, in_use=2, gpus=[{"research": 1.0}, {"": 1.0}, {}, {}]),
        node("gpu1-control-plane", "web", allocatable=0),
    ]
    rows = [held("ml", ["gpu1-worker"], 4, 3, 2.75), held("research", ["gpu1-worker2"], 4, 1), held("web", [], 0, 0)]
    overlaps = ["pod default/old of no tenant holds 1 GPUs of node gpu1-worker2, which is research's"]
    inventory.cluster(tenants, found, nodes=nodes, unlisted=["left"], _kubegpu_spans=spans(("make the cluster", 0, 41.5)))
    inventory.hostvars["gpu1"]["_kubegpu_ledger"] |= {"tenants": rows, "overlaps": overlaps}
    inventory.hostvars["gpu1"]["_kubegpu"] |= {
        "blueprint": BLUEPRINT,
        "combinations": {"accepted": [], "untested": [COMBINATION]},
    }
    steps = [
        {"step": "install KAI Scheduler v0.13.1", "why": "it is absent", "seconds": 31.2},
        {"step": "wait", "why": "it starts"},
    ]
    inventory.worked(spans=spans(("change", 42, 61.0), ("verify", 104, 30.5)), parts={"KAI Scheduler": {"steps": steps}})
    failure = "Check what KAI Scheduler does: 1 of 2 checks failed."
    probe = {"failed": True, "results": failed}
    inventory.worked("research", failure=failure, parts={"checks": probe}, spans=spans(("verify", 104, 22.0)))


def _gpu2(inventory):
    shared = {"name": "kai", "shared": True}
    labels = {"labels": {"pool": "shared"}, "shared_gpus": 4, "share_gpus_with": "any"}
    bounded = [{"name": "vision", "gpu": {"quota": 2, "limit": 4}}]
    vision = {"name": "vision", "trust": "partial", "gpu_nodes": labels, "scheduler": shared, "queues": bounded}
    speech = vision | {"name": "speech", "queues": [{"name": "speech", "gpu": {"limit": 4}}]}
    paused = ML | {"name": "old", "state": "paused"}
    tenants = [vision, speech, paused]
    live_queues = {"vision": queue("vision", 2, 4, 1.5), "speech": queue("speech", 0, 4, 0.5)}
    found = [
        live(name, queues=[live_queues[name]], results=[check("gpu", reason=f"in queue {name}", queue=name)], **MADE)
        for name in live_queues
    ]
    found[0] |= {"due": ["change", "verify"], "reasons": ["something else is wanted of it than when it was verified"]}
    found[0] |= {"vcluster_version": "0.35.3"}
    found.append(live("old", state="paused", scheduler_version=None, results=[]))
    parts = [{"speech": 0.25, "vision": 0.5}, {"vision": 1.0}, *[{}] * 6]
    mig = {"nvidia.com/mig-1g.10gb": {"allocatable": 7, "in_use": 1}}
    nodes = [node("pool-a", "speech", "vision", in_use=2, gpus=parts), node("pool-b", "old", gpus=[{}] * 8) | {"others": mig}]
    rows = [
        held("vision", ["pool-a"], 8, 2, 1.5, quota=4, shared_with=["speech"]),
        held("speech", ["pool-a"], 8, 1, 0.25, quota=4, shared_with=["vision"]),
        held("old", ["pool-b"], 8, 0),
    ]
    variables = {
        "kubegpu_cluster_provider": "existing",
        "kubegpu_kubeconfig": "/etc/kubernetes/admin.conf",
        "kubegpu_shared_scheduler": KAI | {"gpu_sharing": True, "accept_hazards": ["#1103"]},
        "kubegpu_accept_unenforced_network_policies": True,
    }
    probe = {"results": [check("gpu", queue="vision"), check("logs", queue="")]}
    inventory.cluster(tenants, found, "gpu2", shared="v0.16.8", nodes=nodes, variables=variables, _kai_scheduler_probe=probe)
    inventory.hostvars["gpu2"]["_kubegpu_ledger"]["tenants"] = rows
