# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a tenant takes to be made and removed, and its scheduler from release to release, queues kept, and then its probe.

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
WAY = ((OLD, "made"), (NEW, "upgrade, first"), (OLD, "way back, first"), (NEW, "upgrade"), (OLD, "way back"))


def tenant(version: str) -> dict[str, Any]:
    leaves = [{"name": "training", "gpu": {"quota": 3, "limit": 4}}, {"name": "notebooks", "gpu": {"quota": 1, "limit": 2}}]
    return {
        "name": "team-ml",
        "trust": "high",
        "gpu_nodes": {"count": 1},
        "vcluster": {"kubernetes_version": "v1.35.4"},
        "scheduler": {"name": "kai", "version": version, "gpu_sharing": True},
        "queues": [{"name": "ml", "gpu": {"quota": 4, "limit": 4}, "children": leaves}],
    }


def site(lab: Lab, version: str) -> tuple[float, float, float]:
    """Seconds of KAI Scheduler, of its probe, and of making the tenant."""
    said = lab.play("../tests/bench/switch", f"--extra-vars={json.dumps({'kubegpu_tenants': [tenant(version)]})}")
    found = re.search(r"SECONDS ([\d.]+) ([\d.]+) ([\d.]+)", said)
    if lab.code or not found:
        raise SystemExit(said[-6000:])
    switch, probe, whole = (float(seconds) for seconds in found.groups())
    return switch, probe, whole


def main() -> None:
    variables = {"lab_gpus": 4, "nvkind_workers": [{"gpus": [0, 1, 2, 3]}], "kubegpu_tenants": []}
    lab = Lab("kubegpu-bench", f"--extra-vars={json.dumps(variables)}")
    lines = ["| | seconds | with its probe |", "| --- | --- | --- |"]
    try:
        for version, what in WAY:
            switch, probe, _whole = site(lab, version)
            lines.append(f"| {what}: {version} | {switch:.1f} | {switch + probe:.1f} |")
            print(lines[-1], flush=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            Tenants(lab, Path(os.environ["KUBEGPU_CACHE"]), Path(folder)).vcluster("team-ml", state="absent")
        lines.append(f"| the tenant removed, with proof | {time.monotonic() - began:.1f} | |")
        _switch, probe, whole = site(lab, OLD)
        lines.append(f"| the tenant made again, images present | {whole:.1f} | {whole + probe:.1f} |")
        print("\n".join(lines[-2:]), flush=True)
    finally:
        said = lab.play("cleanup")
        assert (lab.code, lab.everything()) == (0, []), said[-4000:]
    write_section(
        "Tenants and their KAI Scheduler",
        f"{today()}, one tenant on the lab with two queues, which are kept. The first time the node pulls the images.\n\n"
        + "\n".join(lines),
    )


if __name__ == "__main__":
    main()
