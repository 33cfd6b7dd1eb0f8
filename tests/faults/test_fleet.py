# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Series of a fleet, and of GPUs, in a real Prometheus, read by node_exporter: alerts are raised by what they are about. Needs no lab."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import stamp
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._backups import Store
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, free_ports
from ansible_collections.kubegpu.tenancy.tests.faults.metrics import Server
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import Site
from ansible_collections.kubegpu.tenancy.tests.unit.plugins.plugin_utils.test_backups import record
from ansible_collections.kubegpu.tenancy.tests.unit.plugins.plugin_utils.test_fleet import run, write

RULES = ROOT / "roles/monitoring/files/kubegpu.rules.yml"
NOW = datetime.datetime.now(datetime.UTC)


def ago(days: float) -> str:
    return stamp(NOW - datetime.timedelta(days=days))


def seen(cluster: str, days: float, **what: Any) -> dict[str, Any]:
    """Evidence of some days ago, of a cluster on which nothing is wrong but what is said."""
    found = run(cluster, at="00:00", tenants=("ml", "web"), **what) | {"at": ago(days)}
    for tenant in found["clusters"][0]["tenants"]:
        tenant["scheduler"] = tenant["scheduler"] | {"end_of_support": f"{NOW + datetime.timedelta(days=400):%Y-%m}"}
        tenant["kubeconfig_expires"] = ago(-300)
    return found


def evidence(folder: Path) -> None:
    """Write evidence of four clusters: one as it should be, one that differs, one with a failure, and one that nobody has looked at."""
    write(folder, "fine", seen("fine", 0.5))
    write(
        folder,
        "edited",
        seen("edited", 0.5, name="drift", pending=["edited/ml: queues, a: 1, wanted 2", "edited: device plugin"]),
    )
    ends = seen("broken", 0.5, problems=["broken/ml: check gpu failed: no GPU"])
    ml, web = ends["clusters"][0]["tenants"]
    ml["scheduler"] = ml["scheduler"] | {"end_of_support": f"{NOW:%Y-%m}", "release": "v0.13.1", "running": "v0.13.1"}
    web["kubeconfig_expires"] = ago(-3)
    write(folder, "broken", ends)
    write(folder, "old", seen("old", 3))


def backups(folder: Path) -> None:
    """Keep backups of one cluster: of a tenant that of last night, of the other that of four days ago."""
    for tenant, days in (("ml", 0.5), ("web", 4)):
        whole = record(0, tenant=tenant, at=ago(days).replace("Z", "+00:00"))
        Store(str(folder), "fine", tenant).keep(whole, b"content", None)


@contextlib.contextmanager
def exporter(folder: Path) -> Iterator[str]:
    """Have a node_exporter that reads the series in a folder, and yield its address."""
    program = "prometheus-node-exporter"
    assert shutil.which(program), f"tools/package {program} {program} installs it"
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    options = ["--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={folder}"]
    with subprocess.Popen([program, *options, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL) as process:
        try:
            yield address
        finally:
            process.terminate()


def alerts(server: Server) -> set[tuple[str, str, str]]:
    """Return the alerts that are raised, with their clusters and tenants."""
    with urllib.request.urlopen(f"{server.url}/api/v1/alerts", timeout=30) as answer:
        found = [one["labels"] for one in json.load(answer)["data"]["alerts"] if one["state"] == "firing"]
    return {(one["alertname"], one.get("cluster", ""), one.get("tenant", "")) for one in found}


@contextlib.contextmanager
def reading(folder: Path, series: Path, rules: list[dict[str, Any]], alertmanager: str = "") -> Iterator[Server]:
    """Have a Prometheus that reads the series in a folder by node_exporter each second, and evaluates rules as often.

    :arg alertmanager: address of one that gets the alerts; empty for none.
    """
    groups = [{"name": "test", "interval": "1s", "rules": rules}]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
    with exporter(series) as address:
        scrape = {"job_name": "test", "scrape_interval": "1s", "scrape_timeout": "1s", "static_configs": [{"targets": [address]}]}
        configuration = {"rule_files": [str(folder / "rules.yml")], "scrape_configs": [scrape]}
        if alertmanager:
            configuration["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        with Server(folder, yaml.safe_dump(configuration)) as server:
            yield server


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    got: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def notifying(folder: Path) -> Iterator[str]:
    """Have an Alertmanager that posts alerts to Receiver, and yield its address."""
    program = "prometheus-alertmanager"
    assert shutil.which(program), f"tools/package {program} {program} installs it"
    with http.server.HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        webhook = {"name": "test", "webhook_configs": [{"url": f"http://127.0.0.1:{server.server_port}/"}]}
        content = {"route": {"receiver": "test", "group_wait": "1s", "group_by": ["alertname"]}, "receivers": [webhook]}
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(content))
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        options = [
            f"--config.file={folder}/alertmanager.yml",
            f"--storage.path={folder}/alertmanager",
            "--cluster.listen-address=",
        ]
        with subprocess.Popen([program, *options, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL) as process:
            try:
                yield address
            finally:
                process.terminate()
                server.shutdown()


def test_each_alert_of_a_fleet_is_raised_by_its_cause(tmp_path: Path) -> None:
    evidence(tmp_path / "evidence")
    backups(tmp_path / "backups")
    site = Site(tmp_path)
    for name in ("fine", "edited", "broken", "old", "never"):
        site.add(name, None, **({"kubegpu_backup_folder": str(tmp_path / "backups")} if name == "fine" else {}))
    page = tmp_path / "page"
    said = site.run(f"--extra-vars=fleet_evidence={tmp_path}/evidence", f"--extra-vars=fleet_dest={page}", playbook="fleet")
    assert site.code == 0, said

    (rules,) = [group for group in yaml.safe_load(RULES.read_text())["groups"] if group["name"] == "kubegpu-fleet"]
    with reading(tmp_path, page, rules["rules"]) as server:

        def raised() -> tuple[set[tuple[str, str, str]] | None, str]:
            found = alerts(server)
            return (found if len({name for name, *_where in found}) == len(rules["rules"]) else None, str(found))

        found = wait_for("all alerts", raised, 60, 1.0)
    assert found == {
        ("KubegpuClusterDiffers", "edited", ""),
        ("KubegpuClusterWaits", "broken", ""),
        ("KubegpuEvidenceOld", "old", ""),
        ("KubegpuEvidenceOld", "never", ""),
        ("KubegpuBackupOld", "fine", "web"),
        ("KubegpuKubeconfigExpires", "broken", "web"),
        ("KubegpuSupportEnds", "broken", "ml"),
    }


def test_gpus_that_a_team_holds_and_hardly_uses_are_told(tmp_path: Path) -> None:
    """The series stand for DCGM exporter's, which needs a GPU: of two teams, one uses its GPUs. The rule looks at five seconds for two hours.

    A real Alertmanager posts the alert.
    """
    (tmp_path / "series").mkdir()
    uses = {("tenant-idle", "GPU-a"): 0, ("tenant-idle", "GPU-b"): 3, ("tenant-idle", "GPU-c"): 90, ("tenant-busy", "GPU-d"): 60}
    lines = [f'DCGM_FI_DEV_GPU_UTIL{{UUID="{uuid}",exported_namespace="{name}"}} {value}' for (name, uuid), value in uses.items()]
    (tmp_path / "series/dcgm.prom").write_text("\n".join([*lines, ""]))
    groups = yaml.safe_load(RULES.read_text())["groups"]
    (rule,) = [rule for group in groups for rule in group["rules"] if rule.get("alert") == "KubegpuGpusUnused"]
    assert "[2h]" in rule["expr"]
    quick = rule | {"expr": rule["expr"].replace("[2h]", "[5s]"), "for": "2s"}
    Receiver.got.clear()
    with notifying(tmp_path) as address, reading(tmp_path, tmp_path / "series", [quick], address):
        (alert,) = wait_for("the alert", lambda: (Receiver.got[:1] or None, "nothing was posted"), 90, 1.0)[0]["alerts"]
    assert (alert["status"], alert["labels"]["exported_namespace"]) == ("firing", "tenant-idle")
    assert alert["annotations"]["summary"] == "The pods of tenant-idle hold 2 GPUs, and hardly use them."
    assert alert["annotations"]["runbook_url"].endswith("docs/how-to/usage.md#read-the-report")
