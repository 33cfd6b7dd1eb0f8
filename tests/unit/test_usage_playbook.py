# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook usage without a Prometheus: by evidence, for several clusters, of which one says nothing of usage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import ROOT

HOST = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "kubegpu_cluster_provider": "existing",
    "kubegpu_kubeconfig": "/nowhere",
}


def run(folder: Path, hosts: dict[str, dict], *options: str) -> tuple[int, str]:
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"kubegpu_clusters": {"hosts": {name: HOST | host for name, host in hosts.items()}}}))
    command = ["ansible-playbook", str(ROOT / "playbooks/usage.yml"), f"--inventory={inventory}", *options]
    environment = os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout + done.stderr


def test_evidence_is_counted_and_a_cluster_that_says_nothing_fails_alone(tmp_path: Path) -> None:
    kept, report = tmp_path / "kept", tmp_path / "report"
    kept.mkdir()
    nodes = [{"node": "n1", "tenants": ["ml"], "allocatable": 4, "gpus": [{"ml": 1.0}, {}, {}, {}]}]
    evidence = {"format": 2, "at": "2026-10-31T06:00:00Z", "clusters": [{"name": "dc1", "nodes": nodes, "tenants": []}]}
    (kept / "1.json").write_text(json.dumps(evidence))
    ml = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}
    usage = {"evidence": str(kept), "folder": str(report), "prices": {"unknown": 2}}
    hosts = {"dc1": {"kubegpu_tenants": [ml], "kubegpu_usage": usage}, "dc2": {}}
    code, said = run(tmp_path, hosts, "-e", "usage_month=2026-10")
    assert code == 2, said
    assert "FAILED dc2: kubegpu_usage is missing." in said
    assert "dc1: Not measured: GPUs, 726 hours." in said
    (cluster,) = json.loads((report / "usage.json").read_text())["clusters"]
    assert [(row["tenant"], row["held"], row["cost"]) for row in cluster["tenants"]] == [("ml", 18.0, 36.0)]
    assert sorted(path.name for path in report.iterdir()) == [
        "usage-cluster.csv",
        "usage-queues.csv",
        "usage.csv",
        "usage.html",
        "usage.json",
    ]
