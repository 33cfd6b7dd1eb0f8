# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What KAI Scheduler, and our own modules, take on large clusters, with simulated nodes beside the lab's own.

python tests/bench/scale.py [--upstream]

With --upstream it plays the size of the sample that KAI Scheduler's developers published, too: 500 nodes and 4,000 jobs.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import itertools
import json
import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import CONFIG_SECRET, KAI_SCHEDULER_NAME
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.parallel import concurrently
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal import lifecycle
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.facts import SIMULATED
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.model import Trace, nodes, workload
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rehearsal.plan import IMAGE
from ansible_collections.kubegpu.tenancy.plugins.modules import (
    gpu_ledger_info,
    kai_pending_info,
    kai_queues,
    kai_queues_info,
    kai_scheduler_info,
    vcluster_info,
)
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab, defaults
from ansible_collections.kubegpu.tenancy.tests.faults.test_kai import NEW, Scheduler
from report import today, write_section
from rerun import objects

GPUS_EACH = 8
# Of our own modules' measurement.
TENANTS, NODES, PODS = 200, 500, 5000
ROUNDS = 3
# Seconds in which all pods of the largest size have to be placed, and for the whole round.
LONGEST, TIMEOUT = 2400, 3600
PARTS = {
    "kube-apiserver": "API server",
    "etcd": "etcd",
    "kai-scheduler-default": "KAI's scheduler",
    "binder": "its binder",
    "pod-grouper": "its pod grouper",
    "podgroup-controller": "its pod group controller",
    "queue-controller": "its queue controller",
    "admission": "its admission",
    "kwok": "KWOK",
}


@dataclasses.dataclass(frozen=True)
class Size:
    """How large a cluster is.

    :ivar pods: with a GPU or half a one each, all submitted at once; none of them ends.
    :ivar halves: how many of five pods ask for half a GPU.
    """

    nodes: int
    pods: int
    queues: int
    halves: int = 2

    def trace(self) -> Trace:
        names = [f"team-{number}" for number in range(self.queues)]
        gpus = self.nodes * GPUS_EACH
        leaves = [{"name": name, "gpu": {"quota": gpus // self.queues}} for name in names]
        work = [
            workload(f"job-{number}", names[number % self.queues], gpus=0.5 if number % 5 < self.halves else 1)
            for number in range(self.pods)
        ]
        shapes = (nodes(count=self.nodes, gpus=GPUS_EACH, cpu="128", memory="1000Gi"),)
        return Trace(LONGEST, shapes, [{"name": "all", "gpu": {"quota": gpus}, "children": leaves}], {}, tuple(work))


# Each after the first has more of one thing.
SIZES = (Size(25, 250, 5), Size(100, 250, 5), Size(100, 1000, 5), Size(100, 1000, 100))
# https://github.com/kai-scheduler/KAI-Scheduler, docs/developer/scale-tests.md
UPSTREAM, PUBLISHED = Size(500, 4000, 1, halves=0), "6 min 37 s"


class Bench(Scheduler):
    """A lab's cluster with simulated nodes."""

    def have(self, trace: Trace) -> None:
        """Have the nodes and queues of a trace."""
        run = Run({"timeout": 600}, kube=self.kube)
        with lifecycle.Claim(run) as claim:
            lifecycle.ensure_cluster(run, trace, IMAGE, claim)
        self.queues(trace.queues)

    def remove(self) -> None:
        run = Run({"timeout": 900}, kube=self.kube)
        with lifecycle.Claim(run) as claim:
            lifecycle.remove_cluster(run, claim)

    def play(self, size: Size) -> str:
        """Play a size; return its row."""
        trace = size.trace()
        self.have(trace)
        before = self.spent()
        run = Run({"timeout": TIMEOUT}, kube=self.kube)
        with lifecycle.Claim(run) as claim:
            (played,) = lifecycle.play(run, trace, KAI_SCHEDULER_NAME, 1, 1, claim)
        print(size, played.measures, played.violations[:3], dict(itertools.islice(played.unbound.items(), 3)), flush=True)
        if not played.waits:
            raise SystemExit(f"no pod was placed: {played.unbound}")
        last = max(played.waits.values())
        parts = ", ".join(
            # A container that was restarted begins to count anew.
            f"{name} {f'{seconds:.0f} s, ' if seconds >= 0 else ''}{memory:.0f} MiB{'' if seconds >= 0 else ', started anew meanwhile'}"
            for name, seconds, memory in sorted(
                ((name, spent - before.get(name, (0, 0))[0], held / 2**20) for name, (spent, held) in self.spent().items()),
                key=lambda part: -part[1],
            )
        )
        measures = played.measures
        cells = [
            f"{size.nodes}",
            f"{size.pods}",
            f"{size.queues}",
            f"{len(played.waits)} in {last:.0f} s",
            f"{measures['bind_p50']:.0f} s",
            f"{measures.get('cycle_p95', 0) / 1000:.1f} s",
            parts,
        ]
        return f"| {' | '.join(cells)} |"

    def spent(self) -> dict[str, tuple[float, float]]:
        """Seconds of a core until now, and bytes of memory, of each part, by the kubelets of the lab's own nodes."""
        kubectl = next(Path(os.environ["KUBEGPU_CACHE"]).glob("programs/kubernetes-v*/kubectl"))
        pods = []
        for node in self.kube.list("v1", "Node", None, f"!{SIMULATED}"):
            path = f"/api/v1/nodes/{node['metadata']['name']}/proxy/stats/summary"
            command = [str(kubectl), f"--kubeconfig={self.kubeconfig}", "get", "--raw", path]
            pods += json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["pods"]
        found: dict[str, tuple[float, float]] = {}
        for pod in pods:
            for start, name in PARTS.items():
                if pod["podRef"]["name"].startswith(start):
                    container = pod["containers"][0]
                    found[name] = (container["cpu"]["usageCoreNanoSeconds"] / 1e9, container["memory"]["workingSetBytes"])
        return found

    def best(self, call: Callable[[], object]) -> float:
        """The seconds of the fastest of some calls."""
        took = []
        for _round in range(ROUNDS):
            began = time.monotonic()
            call()
            took.append(time.monotonic() - began)
        return min(took)

    def read(self, module: Any, **given: Any) -> Callable[[], dict[str, Any]]:
        return lambda: module.reconcile(Run(defaults(module, **given), kube=self.kube, helm=self.helm))  # type: ignore[no-any-return]

    def own(self) -> list[str]:
        """Measure our own modules; return the rows."""
        self.have(Size(NODES, 0, 1).trace())
        self.fill()
        ledger = self.read(gpu_ledger_info)()
        with_gpus = [row for row in ledger["tenants"] if row["in_use"]]
        if len(with_gpus) != TENANTS:
            raise SystemExit(f"the ledger knows {len(with_gpus)} tenants with GPUs, not {TENANTS}")
        tree = [{"name": f"own-{number}", "gpu": {"quota": 20, "limit": 20}} for number in range(TENANTS)]
        create = self.read(kai_queues, state="exact", queues=tree, timeout=300)
        began = time.monotonic()
        create()
        created = time.monotonic() - began
        rows = [f"| kai_queues, makes {TENANTS} | {created:.1f} |"]
        for name, call in {
            "kai_queues, all as desired": create,
            "kai_queues_info": self.read(kai_queues_info),
            "kai_scheduler_info": self.read(kai_scheduler_info),
            "kai_pending_info": self.read(kai_pending_info),
            "gpu_ledger_info": self.read(gpu_ledger_info),
            "vcluster_info": self.read(vcluster_info),
            "inventory plugin, with Ansible's start": self.inventory,
        }.items():
            rows.append(f"| {name} | {self.best(call):.1f} |")
            print(rows[-1], flush=True)
        return rows

    def inventory(self) -> None:
        """List the tenants by the inventory plugin."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "vclusters.yml"
            given = {"plugin": "kubegpu.tenancy.vclusters", "kubeconfig": str(self.kubeconfig), "cluster": "lab"}
            path.write_text(yaml.safe_dump(given))
            command = ["ansible-inventory", f"--inventory={path}", "--list"]
            listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            if len(listed["kubegpu_tenants"]["hosts"]) != TENANTS:
                raise SystemExit(f"the inventory has {len(listed['kubegpu_tenants']['hosts'])} hosts")

    def fill(self) -> None:
        """Have tenants, by the objects that show them, and pods of theirs on the simulated nodes."""
        secret = {
            key: base64.b64encode(key.encode()).decode() for key in ("certificate-authority", "client-certificate", "client-key")
        }
        tenants = [f"tenant-{number:03}" for number in range(TENANTS)]
        config = base64.b64encode(yaml.safe_dump(self.whole_configuration()).encode()).decode()
        concurrently(self.create_all, [[*objects(name, secret), configuration(name, config)] for name in tenants])
        labels = [(f"simulated-0-{number}", tenants[number % TENANTS]) for number in range(NODES)]
        concurrently(lambda pair: self.label(*pair), labels)
        concurrently(self.kube.create, [placed(number, tenants) for number in range(PODS)])

    def whole_configuration(self) -> dict[str, Any]:
        """What vCluster's chart has where no value is given, which is as long as any."""
        (path,) = self.charts.glob("vcluster-*.tgz")
        with tarfile.open(path) as archive:
            return dict(yaml.safe_load(archive.extractfile("vcluster/values.yaml")))  # type: ignore[arg-type]

    def create_all(self, made: Iterable[dict[str, Any]]) -> None:
        for item in made:
            self.kube.create(item)

    def label(self, node: str, tenant: str) -> None:
        self.kube.patch("v1", "Node", node, {"metadata": {"labels": {f"tenant.kubegpu.tenancy/{tenant}": "true"}}})

    def empty(self) -> None:
        """Remove the pods and tenants again, all at once."""
        concurrently(lambda name: self.kube.delete("v1", "Namespace", name), self.tenants())

        def ended() -> tuple[bool | None, str]:
            left = self.tenants()
            return (None, f"{len(left)} are left") if left else (True, "")

        wait_for("the end of the tenants", ended, Deadline(900))

    def tenants(self) -> list[str]:
        names = [item["metadata"]["name"] for item in self.kube.list("v1", "Namespace")]
        return [name for name in names if name.startswith("tenant-tenant-")]


def configuration(name: str, config: str) -> dict[str, Any]:
    """Return the Secret in which vCluster keeps the whole configuration of a virtual cluster."""
    metadata = {"name": f"{CONFIG_SECRET}{name}", "namespace": f"tenant-{name}", "labels": {"app": "vcluster"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"config.yaml": config}}


def placed(number: int, tenants: list[str]) -> dict[str, Any]:
    """Return a pod that is placed already: of each node's ten pods, eight with a GPU."""
    node = number // (PODS // NODES)
    tenant = tenants[node % TENANTS]
    limits = {"nvidia.com/gpu": "1"} if number % (PODS // NODES) < GPUS_EACH else {"cpu": "100m"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"work-{number}-x-default-x-{tenant}",
            "namespace": f"tenant-{tenant}",
            "labels": {"vcluster.loft.sh/managed-by": tenant},
        },
        "spec": {
            "nodeName": f"simulated-0-{node}",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "work", "image": "simulated", "resources": {"limits": limits}}],
        },
    }


def report(rows: Iterable[str], own: Iterable[str]) -> None:
    write_section(
        "Large clusters",
        f"{today()}, KAI Scheduler {NEW} on the lab's cluster, which has two nodes of its own, beside simulated nodes with {GPUS_EACH} GPUs "
        "each. All pods are submitted at once, two of five for half a GPU, which needs a pod more for each GPU, and stay. API server, etcd and "
        "everything else share the two cores. In the last column, the seconds of a core that each part took, and its memory at the end.\n\n"
        "| nodes | pods | queues | placed | half of them within | a cycle of the scheduler, 95 of 100 | parts |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + f"\n\nThe size of the sample that KAI Scheduler's developers publish ({UPSTREAM.nodes} nodes, {UPSTREAM.pods} jobs with a GPU each, "
        f"`--upstream`) took {PUBLISHED} there, on machines of its own, with consolidation off and more binding at once.\n\n"
        f"Our own modules with {NODES} nodes, {PODS} pods of {TENANTS} tenants that hold 4,000 GPUs, and {TENANTS} queues, the best of "
        f"{ROUNDS}:\n\n| | seconds |\n| --- | --- |\n" + "\n".join(own),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", action="store_true", help="play 500 nodes with 4,000 jobs, too")
    upstream = parser.parse_args().upstream
    with Lab("kubegpu-bench", "--inventory=inventories/rehearsal") as lab:
        lab.site()
        bench = Bench(lab, Path(os.environ["KUBEGPU_CACHE"]))
        bench.scheduler(NEW)
        rows = [bench.play(size) for size in SIZES]
        print(*rows, sep="\n", flush=True)
        own = bench.own()
        bench.empty()
        report(rows, own)
        if upstream:
            report([*rows, bench.play(UPSTREAM)], own)
        bench.remove()


if __name__ == "__main__":
    main()
