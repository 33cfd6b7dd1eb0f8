# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes that are made by hand, each of which drift.yml names and site.yml takes back."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import kubernetes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import QUEUE_API_VERSION, QUEUE_KIND, TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import comparable, objects_of
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Cluster, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.faults.test_kai import NEW, OLD

VCLUSTER = {"kubernetes_version": "v1.35.4"}
ACCEPTED = ["#1103", "#1673", "end-of-support"]
VARIABLES: dict[str, Any] = {
    "lab_gpus": 5,
    # All is done by Helm 4, and what is changed by hand, by Helm 3.
    "lab_helm_version": "v4.3.1",
    "lab_network_policies": True,
    "nvkind_workers": [{"gpus": [0, 1]}, {"gpus": [2, 3]}, {"gpus": [4]}],
    "kubegpu_unlisted": "remove",
    "kubegpu_shared_scheduler": {"name": "kai", "version": NEW, "accept_hazards": ACCEPTED},
    "kubegpu_tenants": [
        {
            "name": "own",
            "trust": "high",
            "vcluster": VCLUSTER,
            "gpu_nodes": {"names": ["kubegpu-worker"]},
            "scheduler": {"name": "kai", "version": OLD, "accept_hazards": ACCEPTED},
            "queues": [
                {"name": "all", "gpu": {"quota": 1, "limit": 2}, "children": [{"name": "work", "gpu": {"quota": 1, "limit": 2}}]}
            ],
        },
        {
            "name": "sharing",
            "trust": "high",
            "vcluster": VCLUSTER,
            "gpu_nodes": {"names": ["kubegpu-worker2"], "shared_gpus": 2},
            "scheduler": {"name": "kai", "shared": True},
            "queues": [{"name": "sharing", "gpu": {"quota": 1, "limit": 2}}],
        },
        {"name": "strict", "trust": "zero", "vcluster": VCLUSTER, "gpu_nodes": {"names": ["kubegpu-worker3"]}},
        {"name": "gone", "trust": "high", "state": "absent"},
    ],
}
RUNTIMES = """
import json
path = "/etc/docker/daemon.json"
with open(path) as file:
    settings = json.load(file)
del settings["runtimes"]
with open(path, "w") as file:
    json.dump(settings, file)
"""


class Hand:
    """A person with all rights, and without the inventory."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.host = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))

    def tenant(self, name: str) -> Cluster:
        return Cluster(self.lab, Path(os.environ["KUBEGPU_CACHE"]), str(self.host.kubeconfig.parent / f"tenants/{name}.yml"))

    def docker(self) -> None:
        self.lab.run("python3", "-c", RUNTIMES)

    def limits(self) -> None:
        self.lab.run("sysctl", "--write", "fs.inotify.max_user_instances=8191")

    def label(self) -> None:
        self.node("kubegpu-worker", {"metadata": {"labels": {"tenant.kubegpu.tenancy/own": None}}})

    def taint(self) -> None:
        self.node("kubegpu-worker3", {"spec": {"taints": None}})

    def node(self, name: str, change: dict[str, Any]) -> None:
        self.host.kube.patch("v1", "Node", name, change)

    def queue(self) -> None:
        self.tenant("own").kube.patch(QUEUE_API_VERSION, QUEUE_KIND, "work", {"spec": {"resources": {"gpu": {"limit": 1}}}})

    def shared_queue(self) -> None:
        self.host.kube.delete(QUEUE_API_VERSION, QUEUE_KIND, "sharing")

    def plugin(self) -> None:
        (chart,) = self.host.charts.glob("nvidia-device-plugin-*.tgz")
        self.helm(self.host, "nvidia-device-plugin", "nvidia-device-plugin", chart, "--set", "deviceListStrategy=envvar")

    def values(self) -> None:
        chart = self.host.charts / f"kai-scheduler-{NEW}.tgz"
        self.helm(self.host, "kai-scheduler", "kai-scheduler", chart, "--set", "scheduler.additionalArgs[0]=--v=4")

    def version(self) -> None:
        own = self.tenant("own")
        self.helm(own, "kai-scheduler", "kai-scheduler", own.charts / f"kai-scheduler-{NEW}.tgz")

    def helm(self, cluster: Cluster, name: str, namespace: str, chart: Path, *options: str) -> None:
        command = [str(cluster.helm_binary), f"--kubeconfig={cluster.kubeconfig}", "upgrade", name, str(chart)]
        # The charts' hooks take minutes, and change nothing that is compared.
        command += [f"--namespace={namespace}", "--reset-then-reuse-values", "--no-hooks"]
        code, _said, wrong = cluster.run_helm([*command, *options])
        assert code == 0, wrong

    def webhook(self) -> None:
        """End the operator, which would put it back at once."""
        kube = self.host.kube
        kube.patch("apps/v1", "Deployment", "kai-operator", {"spec": {"replicas": 0}}, "kai-scheduler")

        def ended() -> tuple[bool | None, str]:
            names = [item["metadata"]["name"] for item in kube.list("v1", "Pod", "kai-scheduler")]
            left = [name for name in names if name.startswith("kai-operator")]
            return (None, ", ".join(left)) if left else (True, "")

        wait_for("the end of the operator", ended, Deadline(120))
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            for item in kube.list("admissionregistration.k8s.io/v1", kind):
                if "kai" in item["metadata"]["name"]:
                    kube.delete("admissionregistration.k8s.io/v1", kind, item["metadata"]["name"])

    def policy(self) -> None:
        kind = ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding")
        self.host.kube.delete(*kind, "kubegpu-tenancy-sharing")

    def namespace(self) -> None:
        metadata = {"name": "tenant-old", "labels": OWNED_LABELS | {TENANT_LABEL: "old"}}
        self.host.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})

    def kubeconfig(self) -> None:
        named = {"clusters": "cluster", "users": "user", "contexts": "context"}
        leads = {"cluster": {"server": "https://gone.example"}, "user": {}, "context": {"cluster": "gone", "user": "gone"}}
        config = {kind: [{"name": "gone", key: leads[key]}] for kind, key in named.items()} | {
            "apiVersion": "v1",
            "kind": "Config",
        }
        self.lab.run("sh", "-c", f"umask 077; echo {shlex.quote(json.dumps(config))} > /etc/kubegpu/kubegpu/tenants/gone.yml")

    def removal(self) -> None:
        kube: Kube = self.host.kube
        kube.delete("v1", "Namespace", "tenant-strict")


# What is done, and what drift.yml says of it: what differs, what site would do, and who wrote what is there, where that is known. Each
# stays until the end.
CHANGES: list[tuple[Callable[[Hand], None], str, str, str]] = [
    (
        Hand.docker,
        "lab: configuration of Docker, ",
        "lab: configuration of Docker: site would write /etc/docker/daemon.json (it does not have the settings)",
        "owner root",
    ),
    (
        Hand.limits,
        "lab: kernel limits, /proc/sys/fs/inotify/max_user_instances: 8191, wanted 8192",
        "lab: kernel limits: site would write /proc/sys/fs/inotify/max_user_instances (it holds something else)",
        "",
    ),
    (Hand.queue, "lab/own: queues, work", "lab/own: queues: site would update queue work (gpu.limit 1 -> ", "hand"),
    (Hand.shared_queue, "lab: queues, sharing", "lab: queues: site would create queue sharing (it does not exist)", ""),
    (Hand.plugin, "lab: device plugin, values", "lab: device plugin: site would apply ", "Helm, revision "),
    (
        Hand.webhook,
        "lab: KAI Scheduler, parts: ",
        f"lab: KAI Scheduler: site would upgrade to {NEW} (as asked, with all values)",
        "",
    ),
    (Hand.values, "lab: KAI Scheduler, values", "lab: KAI Scheduler: site would apply the CRDs ", "Helm, revision "),
    (
        Hand.version,
        f"lab/own: KAI Scheduler, version: {NEW}, wanted {OLD}",
        "lab/own: KAI Scheduler: site would apply the CRDs ",
        "Helm, revision ",
    ),
    (
        Hand.policy,
        "lab/sharing: virtual cluster, ",
        "lab/sharing: virtual cluster: site would apply ValidatingAdmissionPolicyBinding kubegpu-tenancy-sharing ",
        "",
    ),
    (
        Hand.namespace,
        "lab: tenant that is not listed, old",
        "lab: tenant that is not listed: site would remove old (kubegpu_unlisted is remove)",
        "",
    ),
    (
        Hand.kubeconfig,
        "lab/gone: kubeconfig, path",
        "lab/gone: kubeconfig: site would remove /etc/kubegpu/kubegpu/tenants/gone.yml (absent is wanted)",
        "owner root",
    ),
    (
        Hand.label,
        "lab: nodes of tenants, kubegpu-worker",
        "lab: nodes of tenants: site would label node kubegpu-worker (it is to belong to own)",
        "",
    ),
    (
        Hand.taint,
        "lab: nodes of tenants, kubegpu-worker3",
        "lab: nodes of tenants: site would taint node kubegpu-worker3 (it is to belong to strict)",
        "",
    ),
    (
        Hand.removal,
        "lab/strict: virtual cluster, namespace: nothing",
        "lab/strict: virtual cluster: site would create namespace tenant-strict (it does not exist)",
        "",
    ),
]


@pytest.fixture(scope="module", name="drifting")
def _drifting() -> Iterator[Lab]:
    with Lab("kubegpu-faults-drift", f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site()
        yield lab


@pytest.fixture(scope="module", name="said_before")
def _said_before() -> list[str]:
    """What drift.yml said after each change."""
    return []


def drift(lab: Lab) -> str:
    """Return what drift.yml said; it changes nothing."""
    said = lab.play("drift", "--check")
    return said.partition("TASK [Print the drift report]")[2].partition("PLAY ")[0] or said[-6000:]


def test_nothing_differs_after_a_run(drifting: Lab) -> None:
    said = drift(drifting)
    assert (drifting.code, "Everything is as the inventory says." in said) == (0, True), said


def test_everything_works(drifting: Lab, tmp_path: Path) -> None:
    said = drifting.play("verify", f"--extra-vars=kubegpu_evidence={tmp_path}")
    assert (drifting.code, changed(said)) == (0, 0), said[-6000:]
    # With a KAI Scheduler of its own, with the host cluster's, and with none.
    rows = [line for line in said.splitlines() if re.match(r" *(own|sharing|strict) ", line)]
    assert [re.search(r"(\d+) of \1\b", row) is not None for row in rows] == [True] * 3, rows
    for part in (
        "Start containers that ask for the first GPU",
        "Probe that a pod on each node gets one GPU",
        "Verify the shared",
    ):
        assert part in said
    evidence = json.loads((tmp_path / "tenancy.json").read_text())
    assert (evidence["result"], evidence["pending"], evidence["problems"]) == ("passed", [], [])
    timed = [span["work"] for cluster in evidence["clusters"] for span in cluster["spans"]]
    assert timed == ["verify the host", "verify the cluster", "verify the shared scheduler"]


def edited(item: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return a patch of an object of a chart, as a person edits one; empty where there is nothing to edit.

    Nothing breaks by it.

    :arg made: the object as the chart made it.
    """
    kind = item["kind"]
    if kind in ("Deployment", "StatefulSet", "DaemonSet"):
        first, *others = item["spec"]["template"]["spec"]["containers"]
        first = first | {"env": [*(first.get("env") or []), {"name": "BY_HAND", "value": "1"}]}
        return {"spec": {"template": {"spec": {"containers": [first, *others]}}}}
    if kind in ("Role", "ClusterRole"):
        return {"rules": [*item["rules"], {"apiGroups": ["hand.example"], "resources": ["all"], "verbs": ["get"]}]}
    if kind in ("RoleBinding", "ClusterRoleBinding"):
        return {"subjects": [*item["subjects"], item["subjects"][0] | {"name": "hand"}]}
    if kind == "ConfigMap":
        data = item.get("data") or {}
        return {"data": {next(iter(data)): "by hand"}} if data else {}
    labels = made["metadata"].get("labels") or {}
    return {"metadata": {"labels": {next(iter(labels)): "by-hand"}}} if labels else {}


Place = tuple[str, str, str, str | None]


def edit_objects(cluster: Cluster, release: str, namespace: str) -> dict[Place, dict[str, Any]]:
    """Edit each object of a release; return what was edited, as it was before, by API version, kind, name and namespace."""
    found = cluster.release(release, namespace)
    assert found
    before: dict[Place, dict[str, Any]] = {}
    for item in objects_of(found):
        kind, name = (item["apiVersion"], item["kind"]), item["metadata"]["name"]
        live = cluster.kube.get(*kind, name, namespace) or cluster.kube.get(*kind, name)
        # The control plane reads its configuration when it starts, and what is edited here would be none.
        if live is None or item["kind"] in ("CustomResourceDefinition", "Secret") or not (patch := edited(live, item)):
            continue
        place = live["metadata"].get("namespace")
        cluster.kube.patch(*kind, name, patch, place)
        before[(*kind, name, place)] = comparable(live)
    return before


def answers(kube: Kube) -> tuple[bool | None, str]:
    try:
        kube.list("v1", "Namespace")
    except TenancyError as exc:
        return None, exc.message
    return True, ""


def test_edits_of_what_charts_made_are_named_and_taken_back(drifting: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hand = Hand(drifting)
    own = hand.tenant("own")
    releases = {
        "lab/own: KAI Scheduler": (own, "kai-scheduler", "kai-scheduler"),
        "lab: KAI Scheduler": (hand.host, "kai-scheduler", "kai-scheduler"),
        "lab: device plugin": (hand.host, "nvidia-device-plugin", "nvidia-device-plugin"),
        # The last one, because the control plane starts anew.
        "lab/own: virtual cluster": (hand.host, "own", "tenant-own"),
    }
    with monkeypatch.context() as by_hand:
        by_hand.setattr(kubernetes, "FIELD_MANAGER", "hand")
        before = {title: edit_objects(*release) for title, release in releases.items()}
    print({title: sorted(f"{kind} {name}" for _api, kind, name, _place in places) for title, places in before.items()})
    assert sum(map(len, before.values())) >= 15
    time.sleep(10)
    wait_for("the control plane to answer", functools.partial(answers, own.kube), Deadline(180))
    said = drift(drifting)
    assert drifting.code == 2, said
    missing = [
        (title, *place) for title, places in before.items() for place in places if f"{title}, {place[1]} {place[2]}" not in said
    ]
    assert missing == [], said
    assert re.search(r"Deployment kai-operator.*, by hand\)", said), said
    assert changed(drifting.site("--extra-vars=kai_scheduler_probe_max_age=0"))
    for title, places in before.items():
        kube = releases[title][0].kube
        now = {place: comparable(kube.get(*place) or {}) for place in places}
        parts = ("spec", "rules", "subjects", "data")
        assert [place for place in places for part in parts if now[place].get(part) != places[place].get(part)] == []
    said = drift(drifting)
    assert (drifting.code, "Everything is as the inventory says." in said) == (0, True), said


@pytest.mark.parametrize(("change", "sentence", "step", "by"), CHANGES, ids=[change.__name__ for change, *_said in CHANGES])
def test_a_change_by_hand_is_named(
    drifting: Lab,
    said_before: list[str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Hand], None],
    sentence: str,
    step: str,
    by: str,
) -> None:
    assert sentence not in "".join(said_before[-1:])
    # By this name the API server notes what is written here.
    monkeypatch.setattr(kubernetes, "FIELD_MANAGER", "hand")
    change(Hand(drifting))
    said = drift(drifting)
    said_before.append(said)
    assert drifting.code == 2, said
    assert sentence in said
    assert step in said
    assert not by or re.search(rf"{re.escape(sentence)}.*? \(since 20[0-9T:Z-]+, by {by}", said), said


def test_what_was_changed_is_found_by_what_it_does_too(drifting: Lab) -> None:
    said = drifting.play("verify", "--tags=cluster,tenants")
    assert drifting.code == 2, said[-6000:]


def test_what_cannot_be_told_is_no_agreement(drifting: Lab) -> None:
    said = drifting.play("drift", "--check", "--extra-vars=kubegpu_kubeconfig=/nowhere/cluster.yml")
    assert drifting.code == 4, said[-6000:]
    drifting.play("drift")
    assert drifting.code == 4, "it ran without check mode"


def test_site_takes_all_of_it_back(drifting: Lab) -> None:
    assert changed(drifting.site())
    said = drift(drifting)
    assert (drifting.code, "Everything is as the inventory says." in said) == (0, True), said
