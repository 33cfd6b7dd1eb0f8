# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many seconds, and how much memory, runs over several clusters take in which all is as desired.

python tests/bench/fleet.py

Clusters without tenants are API servers in memory. Clusters with tenants are inventory hosts that all lead to the cluster of one lab, whose API
server works on the same processors.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import CONTROLLER_FOLDER
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Cluster, Lab, changed
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, STORAGE, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import served
from report import today, write_section
from switch import OLD, tenant

EMPTY, MANY = 12, 40
# Numbers of clusters with tenants.
WITH_TENANTS = (1, 3, 10, MANY)
# Playbooks, and those that run in check mode, where they only compare.
BOOKS, COMPARING = ("site", "drift", "rollout"), ("drift", "rollout")
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
import json, resource, subprocess, sys, time
begin = time.monotonic()
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
wall = time.monotonic() - begin
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024, done.stdout + done.stderr]))
"""


class Cost(NamedTuple):
    """What a playbook took.

    :ivar seconds: of CPU, of all of its processes; ``wall``, from its beginning to its end.
    :ivar memory: of the largest of its processes, in MiB.
    """

    seconds: float
    wall: float
    memory: float


def cost(playbook: str, inventory: Path, environment: dict[str, str]) -> Cost:
    """Run a playbook in which nothing differs, and return what that took."""
    options = ["--check"] if playbook in COMPARING else []
    command = ["ansible-playbook", str(ROOT / f"playbooks/{playbook}.yml"), f"--inventory={inventory}", *options]
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *command], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    code, seconds, wall, memory, said = json.loads(done.stdout)
    if code or (playbook != "drift" and changed(said)):
        raise SystemExit(f"{playbook} ended with {code}, or something differs: {said[-6000:]}")
    print(f"{playbook} of {inventory}: {seconds:.1f} s of CPU in {wall:.1f} s, {memory:.0f} MiB", flush=True)
    return Cost(seconds, wall, memory)


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
    rollout = {"name": "bench", "folder": str(folder / f"rollout-{clusters}"), "waves": [{"percent": 100}], "soak": ""}
    inventory = folder / f"{clusters}.json"
    inventory.write_text(json.dumps({"kubegpu_clusters": {"hosts": hosts, "vars": {"kubegpu_rollout": rollout}}}))
    return inventory


def copy_kubeconfigs(folder: Path, clusters: int) -> None:
    """Give each host the kubeconfigs of the first one, which lead to the same tenants."""
    for number in range(1, clusters):
        for first, other in (
            (Path(CONTROLLER_FOLDER, host(0)).expanduser(), Path(CONTROLLER_FOLDER, host(number)).expanduser()),
            (folder / host(0) / "here", folder / host(number) / "here"),
        ):
            shutil.copytree(first, other)


def processors_in_use(seconds: int = 30) -> float:
    """Return how many of the machine's processors work on average, without any run."""

    def worked() -> int:
        user, nice, system, _idle, _waiting, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:8])
        return user + nice + system + sum(interrupts)

    before = worked()
    time.sleep(seconds)
    return (worked() - before) / os.sysconf("SC_CLK_TCK") / seconds


def of_lab(lab: Lab) -> tuple[float, dict[tuple[str, int], Cost]]:
    """Return how many processors the lab uses by itself, and what playbooks take on clusters with tenants, by playbook and number of clusters."""
    cluster = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))
    environment = os.environ | {"PATH": f"{cluster.helm_binary.parent}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        inventories = {number: with_tenants(Path(folder), cluster, number) for number in WITH_TENANTS}
        command = ["ansible-playbook", str(ROOT / "playbooks/site.yml"), f"--inventory={inventories[1]}"]
        try:
            # Another way to the cluster is another kubeconfig, for each tenant.
            subprocess.run(command, env=environment, cwd=ROOT, check=True)
            copy_kubeconfigs(Path(folder), MANY)
            alone = processors_in_use()
            return alone, {
                (book, number): cost(book, path, environment) for number, path in inventories.items() for book in BOOKS
            }
        finally:
            # Their tenants' kubeconfigs. The tenants themselves go with the lab.
            for number in range(MANY):
                shutil.rmtree(Path(CONTROLLER_FOLDER, host(number)).expanduser(), ignore_errors=True)


def rows(empty: dict[str, Cost], many: Cost, full: dict[tuple[str, int], Cost]) -> list[str]:
    def further(book: str) -> float:
        return (full[book, MANY].seconds - full[book, 1].seconds) / (MANY - 1)

    return [
        "| all is as desired | CPU seconds |",
        "| --- | --- |",
        f"| `site`, one cluster with three tenants, two of them with KAI Scheduler | {full['site', 1].seconds:.1f} |",
        f"| `drift --check`, the same | {full['drift', 1].seconds:.1f} |",
        f"| `site`, each further cluster with three tenants | {further('site'):.1f} |",
        f"| `drift --check`, each further cluster with three tenants | {further('drift'):.1f} |",
        f"| `site`, {EMPTY} clusters without tenants | {empty['site'].seconds:.1f} |",
        f"| `drift --check`, {EMPTY} clusters without tenants | {empty['drift'].seconds:.1f} |",
        f"| `site`, {MANY} clusters without tenants | {many.seconds:.1f} |",
        f"| memory of the controller's largest process meanwhile, in MiB | {many.memory:.0f} |",
    ]


def growth(full: dict[tuple[str, int], Cost]) -> list[str]:
    """Return how the seconds from beginning to end, those of CPU and the memory grow with the clusters."""
    names = {"site": "`site`", "drift": "`drift --check`", "rollout": "`rollout --check`"}
    lines = [f"| {number} | {' | '.join(told(full[book, number]) for book in BOOKS)} |" for number in WITH_TENANTS]
    return [f"| clusters with three tenants | {' | '.join(names[book] for book in BOOKS)} |", "| --- | --- | --- | --- |", *lines]


def told(found: Cost) -> str:
    return f"{found.wall:.0f} s, {found.seconds:.0f} s of CPU, {found.memory:.0f} MiB"


def main() -> None:
    empty = {book: without_tenants(book, EMPTY) for book in ("site", "drift")}
    many = without_tenants("site", MANY)
    with Lab("kubegpu-bench", f"--extra-vars={json.dumps(LAYOUT)}") as lab:
        lab.site()
        alone, full = of_lab(lab)
    about = "CPU seconds of all processes of the controller, on which the modules run as well."
    grows = (
        f"From beginning to end. On the same {os.cpu_count()} processors runs the lab, with the API servers of all clusters and tenants. "
        f"Without any run, the lab uses {alone:.1f} of them."
    )
    lines = [f"{today()}. {about}", "", *rows(empty, many, full), "", grows, "", *growth(full)]
    print("\n".join(lines), flush=True)
    write_section("Runs over several clusters", "\n".join(lines))


if __name__ == "__main__":
    main()
