# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a tenant's scheduler takes from release to release and back, with its queues kept, and then its probe.

python tests/bench/switch.py
"""

from __future__ import annotations

import json
import re
from typing import Any

from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab
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


def main() -> None:
    variables = {"lab_gpus": 4, "nvkind_workers": [{"gpus": [0, 1, 2, 3]}]}
    lab = Lab("kubegpu-bench", f"--extra-vars={json.dumps(variables)}")
    lines = ["| | seconds | with its probe |", "| --- | --- | --- |"]
    try:
        for version, what in WAY:
            said = lab.play("../tests/bench/switch", f"--extra-vars={json.dumps({'kubegpu_tenants': [tenant(version)]})}")
            found = re.search(r"SWITCHED ([\d.]+) ([\d.]+)", said)
            if lab.code or not found:
                raise SystemExit(said[-6000:])
            switch, probe = (float(seconds) for seconds in found.groups())
            lines.append(f"| {what}: {version} | {switch:.1f} | {switch + probe:.1f} |")
            print(lines[-1], flush=True)
    finally:
        lab.play("cleanup")
    write_section(
        "A tenant's KAI Scheduler, from release to release",
        f"{today()}, one tenant on the lab with two queues, which are kept. The first time the node pulls the images.\n\n"
        + "\n".join(lines),
    )


if __name__ == "__main__":
    main()
