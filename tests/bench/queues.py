# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kai_queues against two ways of kubernetes.core.k8s, on a lab with KAI Scheduler, calls to the API counted.

All go through one `kubectl proxy` in the lab, whose log of requests is what is counted. The loop runs over fewer
queues, because a thousand take it an hour, and its numbers are given for as many queues as the others'.

    python tests/bench/queues.py [--queues N] [--looped N]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import manifest
from report import DOCS, today, write_section

ROOT = Path(__file__).resolve().parents[2]
LAB = "kubegpu-bench"
PROXY_PORT = 8001
PROXY_LOG = "/run/kubegpu-bench.log"
WAYS = ("kai_queues", "k8s, one task", "k8s, loop")
STEPS = ("create", "again", "change one", "remove")
KAI = "v0.13.1"

# By way and step: seconds, calls, and whether a change was reported.
Found = dict[tuple[str, str], tuple[float, float, bool]]


def playbook(path: str, extra: dict[str, Any], **environment: str) -> str:
    command = ["ansible-playbook", path, "--inventory=inventories/lab"]
    variables = json.loads(json.dumps(extra | {"lab_name": LAB}))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(variables, file)
        file.flush()
        done = subprocess.run(
            [*command, f"--extra-vars=@{file.name}"],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stdout[-4000:] + done.stderr[-2000:])
    return done.stdout


def in_lab(script: str) -> str:
    return subprocess.run(["docker", "exec", LAB, "sh", "-c", script], capture_output=True, text=True, check=True).stdout


def tree(count: int, limit: int) -> list[dict[str, Any]]:
    """Departments of up to 49 teams each; ``limit`` is that of the last team."""
    found: list[dict[str, Any]] = []
    for n in range(count):
        if n % 50 == 0:
            found.append({"name": f"department-{n:04}", "gpu": {"quota": 49}, "children": []})
        else:
            found[-1]["children"].append({"name": f"team-{n:04}", "gpu": {"quota": 1, "limit": 2}})
    found[-1]["children"][-1]["gpu"] = {"quota": 1, "limit": limit}
    return found


def measure(way: str, step: str, count: int) -> tuple[float, int, bool]:
    """Seconds of the task, calls to the API, and whether it reports a change."""
    queues = tree(count, 3 if step in ("change one", "remove") else 2)
    objects = [manifest(queue) for queue in parse(queues).values()]
    state = "absent" if step == "remove" else "present"
    in_lab(f": > {PROXY_LOG}")
    told = json.loads(
        playbook(
            "tests/bench/queues.yml",
            {"way": way, "state": state, "tree": queues, "objects": objects, "kubeconfig": "/run/kubegpu-bench.yml"},
            ANSIBLE_STDOUT_CALLBACK="ansible.posix.json",
        )
    )
    (task,) = (task for play in told["plays"] for task in play["tasks"] if not task["hosts"]["lab"].get("skipped"))
    result = task["hosts"]["lab"]
    assert result["changed"] or step == "again", f"{way}, {step}: {str(result)[:500]}"
    start, end = (datetime.datetime.fromisoformat(task["task"]["duration"][key].rstrip("Z")) for key in ("start", "end"))
    # A task that called nothing would mean that this is not how the proxy logs any more.
    calls = len(re.findall(r'"Response" verb="\w+" url="[^"]*/queues', in_lab(f"cat {PROXY_LOG}")))
    assert calls > 0
    return (end - start).total_seconds(), calls, result["changed"]


def prepare() -> None:
    variables = {"lab_gpus": 4, "nvkind_workers": [{"gpus": [0, 1, 2, 3]}], "kubegpu_tenants": []}
    playbook("site.yml", variables)
    playbook("tests/bench/kai.yml", {"kai_scheduler_version": KAI})
    cluster = {"clusters": [{"name": "lab", "cluster": {"server": f"http://127.0.0.1:{PROXY_PORT}"}}]}
    contexts = {"contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}], "current-context": "lab"}
    config = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "lab", "user": {}}]} | cluster | contexts
    in_lab(f"echo '{json.dumps(config)}' > /run/kubegpu-bench.yml")
    serve = f"kubectl proxy -v=6 --port={PROXY_PORT} --kubeconfig=/etc/kubegpu/kubegpu/cluster.yml >> {PROXY_LOG} 2>&1"
    subprocess.run(["docker", "exec", "--detach", LAB, "sh", "-c", serve], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--looped", type=int, default=25)
    asked = parser.parse_args()
    found: Found = {}
    try:
        prepare()
        # So that the first way does not pay for what servers do only once: their heaps have grown afterwards.
        for step in ("create", "remove"):
            measure(WAYS[1], step, asked.queues)
        for way in WAYS:
            count = asked.looped if way == "k8s, loop" else asked.queues
            for step in STEPS:
                seconds, calls, changed = measure(way, step, count)
                scale = asked.queues / count
                found[way, step] = seconds * scale, calls * scale, changed
                print(f"{way:14} {step:11} {seconds:8.1f} s {calls:6} calls, {count} queues, changed: {changed}", flush=True)
    finally:
        playbook("cleanup.yml", {})
    report(found, asked.queues, asked.looped)


def report(found: Found, count: int, looped: int) -> None:
    """The table and the plot in docs."""
    lines = [f"| {count} queues | " + " | ".join(WAYS) + " |", "| --- |" + " --- |" * len(WAYS)]
    for step in STEPS:
        ours = found[WAYS[0], step][0]
        cells = [f"{found[way, step][0]:.1f} s, {found[way, step][1]:.0f} calls" for way in WAYS]
        if step == "again":
            cells = [f"{cell}, {'' if found[way, step][2] else 'no '}change" for cell, way in zip(cells, WAYS, strict=True)]
        cells[1:] = [f"{cell} ({found[way, step][0] / ours:.1f} times)" for cell, way in zip(cells[1:], WAYS[1:], strict=True)]
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    sums = [sum(found[way, step][0] for step in STEPS) for way in WAYS]
    times = [f"{seconds:.1f} s ({seconds / sums[0]:.1f} times)" for seconds in sums[1:]]
    lines.append(f"| all four | {sums[0]:.1f} s | " + " | ".join(times) + " |")
    head = (
        f"{today()}, KAI Scheduler {KAI} on the lab's cluster. In brackets, how many times the seconds of kai_queues another way\n"
        f"takes. The loop ran over {looped} queues; its numbers are multiplied to {count}.\n\n"
    )
    write_section("kai_queues", head + "\n".join(lines) + "\n\n![seconds by step and way](benchmark.svg)")
    plt.rcParams["svg.hashsalt"] = "kubegpu"
    figure, axes = plt.subplots(figsize=(7, 3.2))
    for number, way in enumerate(WAYS):
        axes.barh([n + 0.25 * number for n in range(len(STEPS))], [found[way, step][0] for step in STEPS], 0.22, label=way)
    axes.set_yticks([n + 0.25 for n in range(len(STEPS))], STEPS)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"seconds for {count} queues (logarithmic)")
    axes.legend()
    figure.tight_layout()
    figure.savefig(DOCS / "contributing/benchmark.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
