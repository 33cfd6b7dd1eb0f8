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


class Host:
    """A host cluster on which the probe's pod ends at once, and says what it sees.

    :ivar asked: the pod.
    """

    def __init__(self, said, *pods, phase="Succeeded", nodes=(NODE,)):
        self.api, self.asked = InMemoryApi([*nodes, *pods]), None
        self.api.react("create", "Pod", self.run)
        ended = {"terminated": {"reason": "Completed", "message": said}}
        self.status = {"phase": phase, "containerStatuses": [{"name": "probe", "state": ended}]}

    def run(self, item):
        self.asked = item
        self.api.put(item | {"spec": item["spec"] | {"nodeName": "n1"}, "status": self.status})

    def probe(self, check_mode=False, **more):
        params = {"kind": "sandbox", "tenant": "ml", "runtime_class": "kata", "timeout": 1} | more
        return probe.reconcile(make_run(params, self.api, check_mode=check_mode))


def verdicts(result):
    return {found["name"]: (found["verdict"], found["reason"]) for found in result["results"]}


def failed(host):
    with pytest.raises(TenancyError) as caught:
        host.probe()
    return {name: reason for name, (verdict, reason) in verdicts(caught.value.details).items() if verdict == "failed"}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("4.4.0\n", f"it sees kernel 4.4.0, and node n1 has {KERNEL}"),
        (
            "6.18.0-kata\n11111111-2222-3333-4444-555555555555\n",
            "it sees kernel 6.18.0-kata of another boot than that of node n1",
        ),
        ("4.4.0\nno such file\n", f"it sees kernel 4.4.0, and node n1 has {KERNEL}"),
        (f"{KERNEL}\n11111111-2222-3333-4444-555555555555\n", f"it sees kernel {KERNEL} of another boot than that of node n1"),
    ],
)
def test_a_pod_with_a_kernel_of_its_own_is_in_a_sandbox(said, reason):
    host = Host(said, synced("a", "kata"))
    assert verdicts(host.probe()) == {
        "sandbox kernel": ("passed", reason),
        "sandbox pods": ("passed", "1 run in RuntimeClass kata"),
    }
    # Its administrator cannot change what is made on the host cluster.
    assert host.asked["metadata"]["namespace"] == "tenant-ml"
    assert (host.asked["spec"]["runtimeClassName"], host.asked["spec"]["nodeSelector"]) == (
        "kata",
        {"tenant.kubegpu.tenancy/ml": "true"},
    )
    assert [ref for ref in host.api.objects if NAME in ref] == []


@pytest.mark.parametrize("said", [f"{KERNEL}\n{BOOT}\n", KERNEL, f"{KERNEL}\nfoo", f"2.6.61-40-amd64\n{BOOT}"])
def test_a_class_that_leads_to_plain_runc_is_no_sandbox(said):
    assert failed(Host(said)) == {
        "sandbox kernel": f"it sees the kernel of node n1, {KERNEL}: RuntimeClass kata is no sandbox there. See to which program its "
        "handler leads in the node's container runtime"
    }


def test_pods_that_are_older_than_the_sandbox_are_named():
    ended = [synced("done", None, phase="Succeeded")]
    few = Host("4.4.0", synced("a", "kata"), synced("b", None), synced("c", "nvidia"), *ended)
    told = failed(few)["sandbox pods"]
    assert told.startswith(
        "2 of 3 pods run outside RuntimeClass kata, because they are older than the sandbox: default/b, default/c. Delete"
    )
    many = Host("4.4.0", *(synced(f"p{number}", None) for number in range(8)))
    assert "default/p3, default/p4 and 3 more. Delete" in failed(many)["sandbox pods"]


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (Host("", phase="Failed"), "the pod could not say which kernel it sees"),
        (Host(""), "the pod could not say which kernel it sees"),
        (Host("4.4.0", nodes=()), "the node of the pod is gone"),
        (Host("4.4.0", phase="Pending"), "Last seen: "),
    ],
)
def test_what_cannot_be_told_is_no_pass(host, reason):
    assert reason in failed(host)["sandbox kernel"]


def test_a_pod_of_a_probe_that_was_killed_goes_and_one_of_somebody_else_stays():
    left = synced("x", "kata") | {
        "metadata": {"name": NAME, "namespace": "tenant-ml", "labels": {"app.kubernetes.io/managed-by": "kubegpu.tenancy"}}
    }
    assert verdicts(Host("4.4.0", left).probe())["sandbox kernel"][0] == "passed"
    theirs = left | {"metadata": left["metadata"] | {"labels": {}}}
    with pytest.raises(TenancyError, match="is not this collection's"):
        Host("4.4.0", theirs).probe()


def test_a_boot_that_the_node_does_not_tell_is_not_compared():
    silent = NODE | {"status": {"nodeInfo": {"kernelVersion": KERNEL, "bootID": ""}}}
    assert "sandbox kernel" in failed(Host(f"{KERNEL}\n{BOOT}", nodes=[silent]))


def test_in_check_mode_nothing_runs():
    host = Host("4.4.0")
    assert {verdict for verdict, _reason in verdicts(host.probe(check_mode=True)).values()} == {"not_tried"}
    assert host.asked is None


def test_it_needs_a_class():
    with pytest.raises(TenancyError, match="runtime_class: a probe of kind sandbox needs it"):
        Host("4.4.0").probe(runtime_class=None)
