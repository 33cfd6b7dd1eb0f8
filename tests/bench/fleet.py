# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many CPU seconds and how much memory runs over several clusters take in which all is as desired.

python tests/bench/fleet.py

Clusters without tenants are API servers in memory. Clusters with tenants are inventory hosts that all lead to the cluster of one lab.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import CONTROLLER_FOLDER
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Cluster, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import served
from report import today, write_section
from switch import OLD, tenant

EMPTY, MANY, WITH_TENANTS = 12, 40, 3
TENANTS = [
    tenant(OLD),
    tenant("v0.13.1", "team-research"),
    {"name": "web", "trust": "high", "vcluster": {"kubernetes_version": "v1.35.4"}},
]
LAYOUT: dict[str, Any] = {
    "lab_gpus": 8,
    "nvkind_workers": [{"gpus": [0, 1, 2, 3]}, {"gpus": [4, 5, 6, 7]}],
    "kubegpu_tenants": TENANTS,
}
# A program of its own for each playbook, so that what it reports is of that playbook's processes alone.
MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, done.stdout + done.stderr]))
"""


class Cost(NamedTuple):
    """What a playbook took.

    :ivar seconds: of CPU, of all of its processes; ``memory``, of the largest of them, in MiB.
    """

    seconds: float
    memory: float


def cost(playbook: str, inventory: Path, environment: dict[str, str]) -> Cost:
    """Run a playbook in which nothing differs, and return what that took."""
    options = ["--check"] if playbook == "drift" else []
    command = ["ansible-playbook", str(ROOT / f"playbooks/{playbook}.yml"), f"--inventory={inventory}", *options]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    code, seconds, memory, said = json.loads(done.stdout)
    if code or (playbook == "site" and changed(said)):
        raise SystemExit(f"{playbook} ended with {code}, or changed something: {said[-6000:]}")
    print(f"{playbook} of {inventory}: {seconds:.1f} s of CPU, {memory:.0f} MiB", flush=True)
    return Cost(seconds, memory)


def without_tenants(playbook: str, clusters: int) -> Cost:
    """Return what a playbook takes on clusters that have no tenants, and want none."""
    with tempfile.TemporaryDirectory() as folder, served(InMemoryApi([NODE, RUNTIME_CLASS, STORAGE])) as server:
        site = Site(Path(folder))
        for number in range(clusters):
            site.add(f"gpu{number:02}", server, kubegpu_tenants=[])
        return cost(playbook, site.write(), site.environment)


def host(number: int) -> str:
    return f"kubegpu-bench-{number}"


def with_tenants(folder: Path, cluster: Cluster, clusters: int) -> Path:
    """Write an inventory of hosts that all lead to one cluster and its tenants, and return its path."""
    hosts = {}
    for number in range(clusters):
        name = host(number)
        (folder / name).mkdir(exist_ok=True)
        # Runs on one kubeconfig wait for each other.
        path = Path(shutil.copy(cluster.kubeconfig, folder / name / "cluster.yml"))
        hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "kubegpu_cluster_provider": "existing",
            "kubegpu_kubeconfig": str(path),
            "kubegpu_charts": str(cluster.charts),
            "kubegpu_kubeconfig_dir": str(folder / name / "here"),
            "kubegpu_tenants": TENANTS,
        }
    inventory = folder / f"{clusters}.json"
    inventory.write_text(json.dumps({"kubegpu_clusters": {"hosts": hosts}}))
    return inventory


def of_lab(lab: Lab) -> dict[tuple[str, int], Cost]:
    """Return what playbooks take on one cluster with tenants, and on several, by playbook and number of clusters."""
    cluster = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))
    environment = os.environ | {"PATH": f"{cluster.helm_binary.parent}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        inventories = {number: with_tenants(Path(folder), cluster, number) for number in (1, WITH_TENANTS)}
        # Another way to the cluster is another kubeconfig, for each tenant. One after the other: they are verified in the same namespaces.
        command = ["ansible-playbook", str(ROOT / "playbooks/site.yml"), f"--inventory={inventories[WITH_TENANTS]}", "--forks=1"]
        try:
            subprocess.run(command, env=environment, cwd=ROOT, check=True)
            return {
                (book, number): cost(book, path, environment)
                for number, path in inventories.items()
                for book in ("site", "drift")
            }
        finally:
            # Their tenants' kubeconfigs. The tenants themselves go with the lab.
            for number in range(WITH_TENANTS):
                shutil.rmtree(Path(CONTROLLER_FOLDER, host(number)).expanduser(), ignore_errors=True)


def rows(empty: dict[str, Cost], many: Cost, full: dict[tuple[str, int], Cost]) -> list[str]:
    def further(book: str) -> float:
        return (full[book, WITH_TENANTS].seconds - full[book, 1].seconds) / (WITH_TENANTS - 1)

    return [
        f"| `site`, one cluster with three tenants, two of them with KAI Scheduler | {full['site', 1].seconds:.1f} |",
        f"| `drift --check`, the same | {full['drift', 1].seconds:.1f} |",
        f"| `site`, each further cluster with three tenants | {further('site'):.1f} |",
        f"| `drift --check`, each further cluster with three tenants | {further('drift'):.1f} |",
        f"| `site`, {EMPTY} clusters without tenants | {empty['site'].seconds:.1f} |",
        f"| `drift --check`, {EMPTY} clusters without tenants | {empty['drift'].seconds:.1f} |",
        f"| `site`, {MANY} clusters without tenants | {many.seconds:.1f} |",
        f"| memory of the controller's largest process meanwhile, in MiB | {many.memory:.0f} |",
    ]


def main() -> None:
    empty = {book: without_tenants(book, EMPTY) for book in ("site", "drift")}
    many = without_tenants("site", MANY)
    with Lab("kubegpu-bench", f"--extra-vars={json.dumps(LAYOUT)}") as lab:
        lab.site()
        full = of_lab(lab)
    lines = ["| all is as desired | CPU seconds |", "| --- | --- |", *rows(empty, many, full)]
    print("\n".join(lines), flush=True)
    about = "CPU seconds of all processes of the controller, on which the modules run as well."
    write_section("Runs over several clusters", f"{today()}. {about}\n\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
