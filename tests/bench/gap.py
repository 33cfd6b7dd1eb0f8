# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long new pods wait for a scheduler while KAI Scheduler goes from release to release and back; it fails where one is refused.

python tests/bench/gap.py
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import threading
import time
from pathlib import Path
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab
from ansible_collections.kubegpu.tenancy.tests.faults.test_kai import NEW, OLD, VARIABLES, Scheduler, pod
from report import today, write_section

# The first change has the node pull the images.
WAY = (NEW, OLD, NEW, OLD, NEW, OLD)
EVERY = 1.0


class Stream(threading.Thread):
    """Creates a pod a second that asks KAI Scheduler for a place, and removes it once it has one."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(daemon=True)
        self.kube = Kube.connect(kubeconfig=str(kubeconfig))
        self.ended = threading.Event()
        self.given_up = threading.Event()
        self.prefix = f"gap-{secrets.token_hex(2)}"
        self.waits: list[float] = []
        self.refused: list[tuple[float, str]] = []

    def run(self) -> None:
        waiting: dict[str, float] = {}
        number = 0
        while not self.given_up.is_set() and (waiting or not self.ended.is_set()):
            began = time.monotonic()
            if not self.ended.is_set():
                number += 1
                try:
                    self.kube.create(small_pod(f"{self.prefix}-{number}"))
                    waiting[f"{self.prefix}-{number}"] = began
                except TenancyError as exc:
                    self.refused.append((began, exc.message))
            for placed in self.kube.list("v1", "Pod", "default", "app=gap"):
                name = placed["metadata"]["name"]
                if placed["spec"].get("nodeName") and name in waiting:
                    self.waits.append(seconds_to_place(placed))
                    del waiting[name]
                    self.kube.delete("v1", "Pod", name, "default")
            time.sleep(max(0.0, EVERY - (time.monotonic() - began)))

    def finish(self, seconds: float) -> None:
        """Create no more pods, wait so long for the pods that have no place yet, and remove what is left of them."""
        self.ended.set()
        self.join(timeout=seconds)
        self.given_up.set()
        for left in self.kube.list("v1", "Pod", "default", "app=gap"):
            self.kube.delete("v1", "Pod", left["metadata"]["name"], "default")

    @property
    def refusing(self) -> float:
        """The seconds from the first creation that was refused to the last one."""
        return self.refused[-1][0] - self.refused[0][0] + EVERY if self.refused else 0.0


def small_pod(name: str) -> dict[str, Any]:
    made = pod(name, "training")
    made["metadata"]["labels"]["app"] = "gap"
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
    return made


def seconds_to_place(placed: dict[str, Any]) -> float:
    """From a pod's creation to its place, by the API server's clock, in whole seconds."""
    created = datetime.datetime.fromisoformat(placed["metadata"]["creationTimestamp"])
    found = (item["lastTransitionTime"] for item in placed["status"]["conditions"] if item["type"] == "PodScheduled")
    return (datetime.datetime.fromisoformat(next(found)) - created).total_seconds()


def main() -> None:
    lines = ["| | seconds | longest wait for a place | pods refused |", "| --- | --- | --- | --- |"]
    refusals: list[str] = []
    with Lab("kubegpu-bench", f"--extra-vars={json.dumps(VARIABLES)}") as lab:
        lab.site()
        cluster = Scheduler(lab, Path(os.environ["KUBEGPU_CACHE"]))
        cluster.scheduler(OLD)
        cluster.queues()
        cluster.start_work()
        for index, version in enumerate(WAY):
            stream = Stream(cluster.kubeconfig)
            stream.start()
            time.sleep(5)
            began = time.monotonic()
            try:
                cluster.scheduler(version)
            finally:
                seconds = time.monotonic() - began
                stream.finish(120)
            refused = f"{len(stream.refused)}, within {stream.refusing:.0f} s" if stream.refused else "none"
            what = f"{'upgrade to' if version == NEW else 'downgrade to'} {version}{'' if index else ', images not present'}"
            lines.append(f"| {what} | {seconds:.1f} | {max(stream.waits):.0f} s | {refused} |")
            said_no = {message for _when, message in stream.refused}
            refusals += said_no
            print(lines[-1], *said_no, sep="\n", flush=True)
    write_section(
        "The gap while a scheduler is changed",
        f"{today()}, on the lab's host cluster, with a new pod a second. A wait is from a pod's creation to its place, in whole "
        "seconds.\n\n" + "\n".join(lines),
    )
    assert not refusals, refusals


if __name__ == "__main__":
    main()
