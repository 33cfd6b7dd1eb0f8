# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import probe
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

NAME = "kubegpu-sandbox-probe"
SYNCED = f"{NAME}-x-{NAME}-x-ml"
MARKED = {"vcluster.loft.sh/managed-by": "ml"}
KERNEL, BOOT = "6.1.0-40-amd64", "0d5f7f0e-61b1-4f0e-9f6c-2f3b0c0d0e0f"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"nodeInfo": {"kernelVersion": KERNEL, "bootID": BOOT}},
}


def synced(name, runtime_class, phase="Running", labels=None):
    spec = {"nodeName": "n1", "containers": [{"name": "c"}]} | ({"runtimeClassName": runtime_class} if runtime_class else {})
    metadata = {
        "name": f"{name}-x-default-x-ml",
        "namespace": "tenant-ml",
        "labels": MARKED | {"vcluster.loft.sh/namespace": "default"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


class Clusters:
    """A tenant and its host cluster, to which the syncer brings the probe's pod, which says what it sees."""

    def __init__(self, said, *pods, phase="Succeeded", node=NODE):
        self.host, self.tenant = InMemoryApi([*([node] if node else []), *pods]), InMemoryApi()
        self.tenant.react("create", "Namespace", self.tenant.add_account)
        self.tenant.react("create", "Pod", self.sync)
        ended = {"terminated": {"reason": "Completed", "message": said}}
        self.status = {"phase": phase, "containerStatuses": [{"name": "probe", "state": ended}]}
        self.asked = None

    def sync(self, item):
        self.asked = item
        metadata = {"name": SYNCED, "namespace": "tenant-ml", "labels": MARKED}
        self.host.put(item | {"metadata": metadata, "spec": item["spec"] | {"nodeName": "n1"}, "status": self.status})

    def probe(self, check_mode=False, **more):
        params = {
            "kind": "sandbox",
            "tenant": "ml",
            "tenant_kubeconfig": "/x",
            "runtime_class": "kata",
            "timeout": 1,
        } | more
        return probe.reconcile(make_run(params, self.host, check_mode=check_mode), self.tenant)


def verdicts(result):
    return {found["name"]: (found["verdict"], found["reason"]) for found in result["results"]}


def failed(clusters):
    with pytest.raises(TenancyError) as caught:
        clusters.probe()
    return {name: reason for name, (verdict, reason) in verdicts(caught.value.details).items() if verdict == "failed"}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("4.4.0\n", f"it sees kernel 4.4.0, and node n1 has {KERNEL}"),
        ("6.18.0-kata\n11111111-2222-3333-4444-555555555555\n", f"it sees kernel 6.18.0-kata, and node n1 has {KERNEL}"),
        (f"{KERNEL}\n11111111-2222-3333-4444-555555555555\n", f"it sees kernel {KERNEL} of another boot than that of node n1"),
    ],
)
def test_a_pod_with_a_kernel_of_its_own_is_in_a_sandbox(said, reason):
    clusters = Clusters(said, synced("a", "kata"))
    assert verdicts(clusters.probe()) == {
        "sandbox kernel": ("passed", reason),
        "sandbox pods": ("passed", "1 run in RuntimeClass kata"),
    }
    # As most pods, it names no class, so that the answer is what any pod of the tenant gets.
    assert "runtimeClassName" not in clusters.asked["spec"]
    assert [ref for ref in clusters.tenant.objects if ref[2] == NAME] == []


@pytest.mark.parametrize("boot", [f"{BOOT}\n", ""])
def test_a_class_that_leads_to_plain_runc_is_no_sandbox(boot):
    assert failed(Clusters(f"{KERNEL}\n{boot}")) == {
        "sandbox kernel": f"it sees the kernel of node n1, {KERNEL}: RuntimeClass kata is no sandbox there. See to which program its "
        "handler leads in the node's container runtime"
    }


def test_pods_that_are_older_than_the_sandbox_are_named():
    ended = [synced("done", None, phase="Succeeded")]
    few = Clusters("4.4.0", synced("a", "kata"), synced("b", None), synced("c", "nvidia"), *ended)
    told = failed(few)["sandbox pods"]
    assert told.startswith(
        "2 of 3 pods run outside RuntimeClass kata, because they are older than the sandbox: default/b, default/c. Delete"
    )
    many = Clusters("4.4.0", *(synced(f"p{number}", None) for number in range(8)))
    assert "default/p3, default/p4 and 3 more. Delete" in failed(many)["sandbox pods"]


@pytest.mark.parametrize(
    ("clusters", "reason"),
    [
        (Clusters("", phase="Failed"), "the pod could not say which kernel it sees"),
        (Clusters(""), "the pod could not say which kernel it sees"),
        (Clusters("4.4.0", node=None), "the node of the pod is gone"),
        (Clusters("4.4.0", phase="Pending"), "Last seen: "),
    ],
)
def test_what_cannot_be_told_is_no_pass(clusters, reason):
    assert reason in failed(clusters)["sandbox kernel"]


def test_one_that_never_comes_to_the_host_cluster_is_waited_for():
    clusters = Clusters("4.4.0")
    clusters.tenant = InMemoryApi()
    clusters.tenant.react("create", "Namespace", clusters.tenant.add_account)
    assert "Last seen: the pod is not on the host cluster yet" in failed(clusters)["sandbox kernel"]


def test_in_check_mode_nothing_runs():
    clusters = Clusters("4.4.0")
    assert {verdict for verdict, _reason in verdicts(clusters.probe(check_mode=True)).values()} == {"not_tried"}
    assert clusters.asked is None


def test_it_needs_a_class():
    with pytest.raises(TenancyError, match="runtime_class: a probe of kind sandbox needs it"):
        Clusters("4.4.0").probe(runtime_class=None)
