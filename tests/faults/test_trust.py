# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tenants can do to others from within, and at once: on nodes of their own, then on nodes and by a scheduler that they share.

Writes docs/contributing/attacks.md.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import json
import os
import random
import re
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import (
    FRACTION_NOTE,
    GPU_UUID,
    MEMORY_NOTE,
    QUEUE_LABEL,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.modules import gpu_ledger_info
from ansible_collections.kubegpu.tenancy.tests.faults.attacks import (
    ATTACKS,
    CONFIGMAPS,
    HARMLESS,
    POSSIBLE,
    STOPPED,
    Attacker,
    read_metrics,
)
from ansible_collections.kubegpu.tenancy.tests.faults.labs import KAI, ROOT, Cluster, Lab

# Of the releases that the lab can build.
# Devices of the node that is shared, and what each of its tenants may have of them.
SHARED_GPUS, BOUND = 3, 2
HOST = {
    "lab_gpus": 7,
    "lab_network_policies": True,
    "nvkind_workers": [{"gpus": [0, 1, 2]}, {"gpus": [3, 4]}, {"gpus": [5, 6]}],
}
VCLUSTER = {"vcluster": {"kubernetes_version": "v1.35.4"}}
BOUNDED = {"quota": {"count/configmaps": CONFIGMAPS}}


def alone(trust: str, **more: Any) -> dict[str, Any]:
    return VCLUSTER | {"name": f"alone-{trust}", "trust": trust, "gpu_nodes": {"count": 1}} | more


def beside(name: str, trust: str) -> dict[str, Any]:
    return VCLUSTER | {
        "name": name,
        "trust": trust,
        "gpu_nodes": {"names": ["kubegpu-worker"], "shared_gpus": BOUND},
        "scheduler": {"name": "kai", "shared": True},
        "queues": [{"name": name, "gpu": {"quota": 1, "limit": BOUND}}],
        **BOUNDED,
    }


OWN_KAI = {"scheduler": KAI, "queues": [{"name": "work", "gpu": {"quota": 2, "limit": 2}}]}
# The namespace of who may read metrics.
PROMETHEUS = "monitoring"
# Tenants, the first of which is attacked: nothing protects it.
LAYOUTS: dict[str, dict[str, Any]] = {
    "alone": {
        "kubegpu_tenants": [
            VCLUSTER | {"name": "victim", "trust": "high"},
            alone("high", **OWN_KAI),
            alone("partial", **OWN_KAI, **BOUNDED),
            # With a KAI Scheduler of its own it would not have the strictest pod security standard.
            alone("zero", **BOUNDED),
        ],
    },
    "beside": {
        "kubegpu_unlisted": "remove",
        "kubegpu_shared_scheduler": KAI | {"gpu_sharing": True},
        "kubegpu_metrics": {"provider": "annotations", "namespace": PROMETHEUS},
        "kubegpu_tenants": [beside("neighbour", "high"), beside("beside-high", "high"), beside("beside-partial", "partial")],
    },
}
# How long, in seconds, tenants submit pods at random.
RACE = 300
SEED = 15


class TrustLab(Lab):
    """The lab, with one layout of tenants after the other."""

    def arrange(self, layout: str) -> list[Attacker]:
        """Have the tenants of a layout, and return its attackers."""
        self.options = (f"--extra-vars={json.dumps(HOST | LAYOUTS[layout])}",)
        self.site()
        cluster = Cluster(self, Path(os.environ["KUBEGPU_CACHE"]))
        victim, *names = [tenant["name"] for tenant in LAYOUTS[layout]["kubegpu_tenants"]]
        # A client each: they work side by side.
        return [Attacker(cluster, name, Attacker(cluster, victim)) for name in names]


@pytest.fixture(scope="module", name="trust_lab")
def _trust_lab() -> Iterator[TrustLab]:
    with TrustLab("kubegpu-faults-trust") as made:
        yield made


def attempts(layout: str, attackers: list[Attacker]) -> tuple[dict[str, tuple[str, ...]], dict[str, list[str]]]:
    """Let all attackers of a layout try each attack that it can be tried in; return outcomes and reasons by what an attack does."""
    attackers[0].other.serve_a_page()
    outcomes, reasons = {}, {}
    with concurrent.futures.ThreadPoolExecutor(len(attackers)) as pool:
        # Not attacks: what shows that the pods of the attacks fail by what the attacks add.
        for attacker in [attackers[0].other, *attackers]:
            assert attacker.run("harmless") == (True, "Completed")
        for attack in ATTACKS:
            if getattr(attack, layout):
                found = list(pool.map(attack.attempt, attackers))
                outcomes[attack.does] = tuple(POSSIBLE if possible else STOPPED for possible, _reason in found)
                reasons[attack.does] = [reason[:300] for _possible, reason in found]
                print(attack.attempt.__name__, outcomes[attack.does], reasons[attack.does], flush=True)
    return outcomes, reasons


def page(seen: dict[str, dict[str, tuple[str, ...]]]) -> str:
    head = """\
        # What a tenant can do to others

        Tried in the lab by the administrator of a tenant, with nothing but its kubeconfig, network policies enforced by SIG
        Network's kube-network-policies. On nodes of its own, `high` and `partial` have a KAI Scheduler of their own; `zero` has
        none, because its pod security standard would not be `restricted` then. On shared nodes, the host cluster's KAI Scheduler
        places the pods of all. Made by `tests/faults/test_trust.py`; what the profiles do is in [isolation](../explanation/isolation.md).

        | attempt | own nodes: `high` | `partial` | `zero` | shared nodes: `high` | `partial` | what stops it |
        |---|---|---|---|---|---|---|
        """
    rows = []
    for attack in ATTACKS:
        cells = [*seen["alone"].get(attack.does, [""] * 3), *seen["beside"].get(attack.does, [""] * 2)]
        rows.append(f"| {attack.does} | {' | '.join(cells)} | {attack.by} |")
    return textwrap.dedent(head) + "\n".join(rows) + "\n"


def test_what_each_profile_stops(trust_lab: TrustLab) -> None:
    seen, reasons = {}, {}
    for layout in LAYOUTS:
        seen[layout], reasons[layout] = attempts(layout, trust_lab.arrange(layout))
    (ROOT / "docs/contributing/attacks.md").write_text(page(seen))
    expected = {layout: {one.does: outcomes for one in ATTACKS if (outcomes := getattr(one, layout))} for layout in LAYOUTS}
    assert seen == expected, json.dumps(reasons, indent=1)


def test_the_prometheus_reads_the_scheduler_that_tenants_share(trust_lab: TrustLab) -> None:
    """It can be read at all: that tenants fail is the policy's doing."""
    kube = Cluster(trust_lab, Path(os.environ["KUBEGPU_CACHE"])).kube
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROMETHEUS}})
    (container,) = HARMLESS["containers"]
    # What enforces policies learns of a new pod only after it runs.
    script = f"for try in 1 2 3 4 5; do ({read_metrics(kube)}) && exit 0; sleep 1; done; exit 1"
    spec = HARMLESS | {"containers": [container | {"command": ["/bin/sh", "-c", script]}]}
    kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scraper", "namespace": PROMETHEUS}, "spec": spec})

    def ended() -> tuple[str | None, str]:
        pod = kube.get("v1", "Pod", "scraper", PROMETHEUS) or {}
        phase = pod.get("status", {}).get("phase", "")
        return phase if phase in ("Succeeded", "Failed") else None, phase

    assert wait_for("the scraper's end", ended, Deadline(180)) == "Succeeded"
    kube.delete("v1", "Namespace", PROMETHEUS)


@dataclasses.dataclass
class Held:
    """GPUs that a pod saw, by UUID, and for how long, in seconds since 1970."""

    tenant: str
    gpus: frozenset[str]
    start: float
    end: float


class Submitter:
    """A tenant that submits pods with GPUs at random."""

    def __init__(self, attacker: Attacker, seed: int) -> None:
        self.tenant = attacker.name
        self._kube = attacker.kube
        self._random = random.Random(seed)  # noqa: S311 - to be repeated
        self._count = itertools.count()
        self.held: list[Held] = []
        self.refused: list[str] = []

    def submit_until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self._submit()
            self._collect()
            time.sleep(self._random.uniform(0, 3))
        # The pods that run end within seconds; others may wait for longer than it is worth.
        time.sleep(15)
        self._collect()
        for pod in self._mine():
            self._kube.delete("v1", "Pod", pod["metadata"]["name"], "default", grace_seconds=0)

    def _submit(self) -> None:
        if len(self._mine()) > 12:
            return
        asked: list[tuple[int, dict[str, str]]] = [
            (1, {}),
            (1, {}),
            (2, {}),
            (0, {FRACTION_NOTE: "0.5"}),
            (0, {MEMORY_NOTE: "20000"}),
        ]
        gpus, notes = self._random.choice(asked)
        (container,) = HARMLESS["containers"]
        stay = self._random.randint(2, 10)
        command = ["/bin/sh", "-c", f"nvidia-smi -L > /dev/termination-log; sleep {stay}"]
        limits = {"cpu": "100m", "memory": "32Mi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        spec = HARMLESS | {
            "schedulerName": "kai-scheduler",
            "runtimeClassName": "nvidia",
            "containers": [container | {"command": command, "resources": {"limits": limits}}],
        }
        metadata = {
            "name": f"race-{next(self._count)}",
            "namespace": "default",
            "labels": {QUEUE_LABEL: self.tenant, "app": "race"},
            "annotations": notes,
        }
        self._kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def _mine(self) -> list[dict[str, Any]]:
        return self._kube.list("v1", "Pod", "default", "app=race")

    def _collect(self) -> None:
        """Note the GPUs of pods that ended, and why others were not let in, and remove both."""
        events = {
            event["involvedObject"].get("name"): str(event.get("message")) for event in self._kube.list("v1", "Event", "default")
        }
        for pod in self._mine():
            name, (status, *_more) = pod["metadata"]["name"], pod["status"].get("containerStatuses") or [{}]
            if ended := status.get("state", {}).get("terminated"):
                gpus = frozenset(re.findall(GPU_UUID, ended.get("message", "")))
                self.held.append(Held(self.tenant, gpus, seconds(ended["startedAt"]), seconds(ended["finishedAt"])))
            elif "denied request" in events.get(name, ""):
                self.refused.append(events[name])
            else:
                continue
            self._kube.delete("v1", "Pod", name, "default", grace_seconds=0)


def seconds(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))


def test_two_tenants_at_once_share_no_gpu_and_keep_within_their_bounds(trust_lab: TrustLab) -> None:
    """Whole GPUs, parts and memory at random: by the ledger, and by what the pods' containers saw."""
    attackers = trust_lab.arrange("beside")
    submitters = [Submitter(attacker, SEED + number) for number, attacker in enumerate(attackers)]
    samples = []
    deadline = time.monotonic() + RACE
    with concurrent.futures.ThreadPoolExecutor(len(submitters)) as pool:
        at_work = [pool.submit(submitter.submit_until, deadline) for submitter in submitters]
        while not all(work.done() for work in at_work):
            samples.append(gpu_ledger_info.reconcile(Run({"devices": False}, kube=attackers[0].host)))
            time.sleep(1)
        for work in at_work:
            work.result()
    most = {row["tenant"]: max(in_use(sample, row["tenant"]) for sample in samples) for row in samples[-1]["tenants"]}
    overlaps = [overlap for sample in samples for overlap in sample["overlaps"]]
    print(len(samples), "samples", most, [(len(one.held), len(one.refused)) for one in submitters])
    assert not overlaps
    assert all(most[submitter.tenant] == BOUND for submitter in submitters), most
    held = [held for submitter in submitters for held in submitter.held]
    together = [
        (one, other)
        for one, other in itertools.combinations(held, 2)
        if one.gpus & other.gpus and one.start < other.end and other.start < one.end
    ]
    assert not together
    for one in held:
        at_once = [other for other in held if other.tenant == one.tenant and other.start <= one.start < other.end]
        assert sum(len(other.gpus) for other in at_once) <= BOUND, at_once
    for submitter in submitters:
        # Each got GPUs, and no part of one.
        assert all(one.gpus for one in submitter.held)
        assert len(submitter.held) > 10
        assert submitter.refused
        assert all("shares no GPUs: ask for whole ones" in reason for reason in submitter.refused)


def in_use(sample: dict[str, Any], tenant: str) -> int:
    return next((row["in_use"] for row in sample["tenants"] if row["tenant"] == tenant), 0)
