# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long tenants take to be made and removed, and a scheduler from release to release, queues kept, and then its probe.

python tests/bench/switch.py
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab
from ansible_collections.kubegpu.tenancy.tests.faults.test_tenants import Tenants
from report import today, write_section

OLD, NEW = "v0.12.0", "v0.13.1"
# The first of each has the node pull the release's images.
WAY = ((OLD, "made"), (NEW, "upgrade, first"), (OLD, "downgrade, first"), (NEW, "upgrade"), (OLD, "downgrade"))


def tenant(version: str, name: str = "team-ml") -> dict[str, Any]:
    leaves = [{"name": "training", "gpu": {"quota": 3, "limit": 4}}, {"name": "notebooks", "gpu": {"quota": 1, "limit": 2}}]
    return {
        "name": name,
        "trust": "high",
        "gpu_nodes": {"count": 1},
        "vcluster": {"kubernetes_version": "v1.35.4"},
        # Of the two releases that the lab can build.
        "scheduler": {
            "name": "kai",
            "version": version,
            "gpu_sharing": True,
            "accept_hazards": ["#1103", "#1673", "end-of-support"],
        },
        "queues": [{"name": "ml", "gpu": {"quota": 4, "limit": 4}, "children": leaves}],
    }


def site(lab: Lab, *tenants: dict[str, Any]) -> tuple[float, float, float]:
    """Seconds of KAI Scheduler, of its probe, and of making the tenant; of several, those of the slowest."""
    said = lab.play("tests/bench/switch", f"--extra-vars={json.dumps({'kubegpu_tenants': tenants})}")
    found = re.findall(r"SECONDS ([\d.]+) ([\d.]+) ([\d.]+)", said)
    if lab.code or len(found) != len(tenants):
        raise SystemExit(said[-6000:])
    switch, probe, whole = (max(map(float, seconds)) for seconds in zip(*found, strict=True))
    return switch, probe, whole


def removed(tenants: Tenants) -> float:
    began = time.monotonic()
    tenants.vcluster("team-ml", state="absent")
    return time.monotonic() - began


def main() -> None:
    workers = [{"gpus": [0, 1, 2, 3]}, {"gpus": [4, 5, 6, 7]}]
    variables = {"lab_gpus": 8, "nvkind_workers": workers, "kubegpu_tenants": []}
    lines = ["| | seconds | with its probe |", "| --- | --- | --- |"]
    wholes: list[float] = []
    with Lab("kubegpu-bench", f"--extra-vars={json.dumps(variables)}") as lab:
        for version, what in WAY:
            switch, probe, whole = site(lab, tenant(version))
            wholes.append(whole + probe)
            lines.append(f"| {what}: {version} | {switch:.1f} | {switch + probe:.1f} |")
            print(lines[-1], flush=True)
        with tempfile.TemporaryDirectory() as folder:
            tenants = Tenants(lab, Path(os.environ["KUBEGPU_CACHE"]), Path(folder))
            lines.append(f"| the tenant removed, with proof | {removed(tenants):.1f} | |")
            _switch, probe, one = site(lab, tenant(OLD))
            lines.append(f"| the tenant made again, images present | {one:.1f} | {one + probe:.1f} |")
            removed(tenants)
        _switch, probe, two = site(lab, tenant(OLD), tenant(OLD, "team-research"))
        lines.append(f"| two made at once, the second on a node without images | {two:.1f} | {two + probe:.1f} |")
        print("\n".join(lines[-3:]), flush=True)
        # Tenants use the time for which others wait; the first one's node had to pull the images, too.
        assert two + probe < 1.5 * wholes[0]
    write_section(
        "Tenants and their KAI Scheduler",
        f"{today()}, one tenant on the lab with two queues, which are kept. The first time the node pulls the images.\n\n"
        + "\n".join(lines),
    )


if __name__ == "__main__":
    main()
