# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rollout over twelve API servers, by the playbooks themselves: the change is the rules of a Prometheus on each.

The API servers and their etcds are the real programs, which the lab's build left in the cache. There are no nodes: nothing runs there. The
Prometheus whose alerts are read is that of Debian.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.tests.faults.api_server import ApiServer
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, kill_tree
from ansible_collections.kubegpu.tenancy.tests.faults.metrics import Server
from ansible_collections.kubegpu.tenancy.tests.faults.test_fleet import alerts, reading
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import Site
from ansible_collections.kubegpu.tenancy.tests.unit.test_rollout_playbook import awaited

NAMES = [f"gpu{number:02}" for number in range(1, 13)]
BROKEN, SLOW, MUTE = "gpu03", "gpu05", "gpu11"
WAVES = [{"hosts": "canary"}, {"hosts": "north", "at_once": 2}, {"percent": 100}]
MONITORING = "monitoring.coreos.com"
RULES = (f"{MONITORING}/v1", "PrometheusRule", "kubegpu", "monitoring")
# Seconds, on a machine that does other things.
ROLL = 1500


class Watched(ApiServer):
    """A cluster with the kinds of the Prometheus operator."""

    def has_rules(self) -> bool:
        return self.kube.get(*RULES) is not None

    def fill(self) -> None:
        """Wait until it answers, and create what the Prometheus operator would."""
        self.wait()
        self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}})
        for kind in ("PrometheusRule", "ServiceMonitor"):
            self.kube.create(custom_resource(kind))


def custom_resource(kind: str) -> dict[str, Any]:
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower()}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{MONITORING}"},
        "spec": {"group": MONITORING, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def refusal() -> list[dict[str, Any]]:
    """A policy that lets no rules in, and its binding."""
    api, name = "admissionregistration.k8s.io/v1", {"name": "no-rules"}
    rule = {"apiGroups": [MONITORING], "apiVersions": ["*"], "operations": ["*"], "resources": ["prometheusrules"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": "no rules here"}]}
    policy = {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": name, "spec": spec}
    bound = {"policyName": "no-rules", "validationActions": ["Deny"]}
    return [policy, {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": name, "spec": bound}]


class Fleet(Site):
    """The clusters, and the inventory in which each is a host."""

    def __init__(self, folder: Path, servers: dict[str, Watched]) -> None:
        super().__init__(folder)
        self.servers = servers
        metrics = {"provider": "service_monitor", "namespace": "monitoring"}
        for name, variables in {"old": {}, "new": {"kubegpu_metrics": metrics}}.items():
            blueprint = {"about": "clusters of the test", "variables": variables}
            (folder / f"{name}-2026-11-28.yml").write_text(yaml.safe_dump(blueprint))
        rollout = {
            "name": "rules",
            "waves": WAVES,
            "soak": "",
            "back_to": self.blueprint("old"),
            "folder": str(folder / "rollouts"),
        }
        common = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "kubegpu_cluster_provider": "existing",
            "kubegpu_tenants": [],
            "kubegpu_blueprint": self.blueprint("new"),
            "kubegpu_rollout": rollout,
        }
        hosts = {
            name: {"kubegpu_kubeconfig": str(server.kubeconfig), "kubegpu_kubeconfig_dir": str(folder / "here" / name)}
            for name, server in servers.items()
        }
        groups = {name: {"hosts": dict.fromkeys(members)} for name, members in {"canary": NAMES[:1], "north": NAMES[1:6]}.items()}
        self.rollout = rollout
        self.inventory = folder / "hosts.json"
        self.inventory.write_text(json.dumps({"kubegpu_clusters": {"hosts": hosts, "vars": common}} | groups))

    def blueprint(self, name: str) -> str:
        return str(self.folder / f"{name}-2026-11-28.yml")

    def command(self, playbook: str, *options: str) -> list[str]:
        return ["ansible-playbook", f"playbooks/{playbook}.yml", f"--inventory={self.inventory}", "--forks=4", *options]

    def play(self, playbook: str, *options: str) -> str:
        done = subprocess.run(
            self.command(playbook, *options),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=ROLL,
            check=False,
        )
        self.code = done.returncode
        return done.stdout + done.stderr

    def kill_rollout_once(self, what: Callable[[], bool]) -> None:
        """Begin the rollout, or go on with it, and kill it with all of its processes once something is so."""
        with (self.folder / "killed").open("w") as log:
            process = subprocess.Popen(self.command("rollout"), cwd=ROOT, env=self.environment, stdout=log, stderr=log)
            awaited(lambda: what() or process.poll() is not None, ROLL)
            assert process.poll() is None, (self.folder / "killed").read_text()[-6000:]
            kill_tree(process.pid)
            process.wait()

    def change(self, hosts: dict[str, dict[str, Any]], **common: Any) -> None:
        """Give clusters variables of their own, and all of them some."""
        content = json.loads(self.inventory.read_text())
        for name, variables in hosts.items():
            content["kubegpu_clusters"]["hosts"][name] |= variables
        content["kubegpu_clusters"]["vars"] |= common
        self.inventory.write_text(json.dumps(content))

    def with_rules(self) -> list[str]:
        return [name for name, server in self.servers.items() if server.has_rules()]


@pytest.fixture(name="fleet", scope="module")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("rollout")
    programs = Path(os.environ["KUBEGPU_CACHE"]) / "programs"
    with ExitStack() as stack:
        servers = {name: stack.enter_context(Watched(folder / name, programs)) for name in NAMES}
        for server in servers.values():
            server.fill()
        fleet = Fleet(folder, servers)
        said = fleet.play("site", f"--extra-vars=kubegpu_blueprint={fleet.blueprint('old')}")
        assert (fleet.code, fleet.with_rules()) == (0, []), said[-6000:]
        yield fleet


def test_nothing_begins_while_one_does_not_answer(fleet: Fleet) -> None:
    fleet.servers[MUTE].signal(signal.SIGSTOP)
    try:
        said = fleet.play("rollout")
    finally:
        fleet.servers[MUTE].signal(signal.SIGCONT)
    assert fleet.code == 2, said[-6000:]
    assert MUTE in said
    assert fleet.with_rules() == []


def test_it_is_killed_twice_goes_on_and_stops_at_the_broken_one(fleet: Fleet) -> None:
    for item in refusal():
        fleet.servers[BROKEN].kube.create(item)
    with fleet.servers[SLOW].slow():
        fleet.kill_rollout_once(fleet.servers["gpu01"].has_rules)
        fleet.kill_rollout_once(fleet.servers["gpu02"].has_rules)
        said = fleet.play("rollout")
    assert fleet.code == 2, said[-6000:]
    for line in (
        "wave 1: as the inventory says: gpu01",
        f"wave 2: failed, and went back: {BROKEN}",
        "wave 2: not changed: gpu04, gpu05, gpu06",
        "wave 3: not changed: gpu07, gpu08, gpu09, gpu10, gpu11, gpu12",
        "no rules here",
    ):
        assert line in said, said[-6000:]
    assert fleet.with_rules() == ["gpu01", "gpu02"]


def test_it_goes_on_once_that_is_mended_and_leaves_a_page(fleet: Fleet) -> None:
    for item in reversed(refusal()):
        fleet.servers[BROKEN].kube.delete(item["apiVersion"], item["kind"], "no-rules")
    with fleet.servers[SLOW].slow():
        said = fleet.play("rollout")
    assert fleet.code == 0, said[-6000:]
    assert fleet.with_rules() == NAMES
    said = fleet.play("drift", "--check", f"--extra-vars=kubegpu_evidence={fleet.folder}/evidence")
    assert fleet.code == 0, said[-6000:]
    said = fleet.play(
        "fleet", f"--extra-vars=fleet_evidence={fleet.folder}/evidence", f"--extra-vars=fleet_dest={fleet.folder}/page"
    )
    assert fleet.code == 0, said[-6000:]
    page = (fleet.folder / "page/fleet.html").read_text()
    assert [name for name in NAMES if name not in page] == []


class Watch:
    """A Prometheus that watches several clusters, with an alert that fires where a file says so."""

    def __init__(self, folder: Path, server: Server) -> None:
        self._folder, self.server = folder, server

    def lose(self, *clusters: str) -> None:
        """Have the alert fire for some clusters, and for no other. A tenant serves what looks like the same alert of gpu02."""
        forged = 'ALERTS{alertname="KubegpuSchedulerMissing",alertstate="firing",cluster="gpu02",namespace="tenant-ml"} 1'
        lines = [*(f'lost{{cluster="{name}"}} 1' for name in clusters), forged, ""]
        (self._folder / "new").write_text("\n".join(lines))
        (self._folder / "new").rename(self._folder / "lost.prom")

    def fires(self, *clusters: str) -> None:
        """Wait until the alert fires for these clusters, and for no other."""
        wanted = {("KubegpuSchedulerMissing", name, "") for name in clusters}

        def seen() -> tuple[bool | None, str]:
            found = alerts(self.server)
            return found == wanted or None, f"{found}"

        wait_for("the alert", seen, 60)


@contextmanager
def watching(folder: Path) -> Iterator[Watch]:
    (folder / "read").mkdir(parents=True)
    rule = {"alert": "KubegpuSchedulerMissing", "expr": "max by (cluster) (lost) == 1", "labels": {"severity": "critical"}}
    with reading(folder, folder / "read", [rule]) as server:
        yield Watch(folder / "read", server)


def test_an_alert_that_fires_since_the_change_stops_it(fleet: Fleet) -> None:
    limit = "--limit=gpu01,gpu02"
    said = fleet.play("site", limit)
    assert fleet.code == 0, said[-6000:]
    with watching(fleet.folder / "watch") as watch:
        usage = {name: {"kubegpu_usage": {"url": watch.server.url, "labels": {"cluster": name}}} for name in NAMES[:2]}
        rollout = fleet.rollout | {"name": "no-rules", "back_to": "", "soak": "1m"}
        fleet.change(usage, kubegpu_blueprint=fleet.blueprint("old"), kubegpu_rollout=rollout)
        # It fires on the other cluster before anything is changed.
        watch.lose("gpu02")
        watch.fires("gpu02")
        with (fleet.folder / "rolled").open("w") as log:
            process = subprocess.Popen(fleet.command("rollout", limit), cwd=ROOT, env=fleet.environment, stdout=log, stderr=log)
            awaited(lambda: not fleet.servers["gpu01"].has_rules() or process.poll() is not None, ROLL)
            watch.lose("gpu01", "gpu02")
            process.wait(ROLL)
        said = (fleet.folder / "rolled").read_text()
        assert process.returncode == 2, said[-6000:]
        assert "FAILED gpu01: alerts fire that did not before: KubegpuSchedulerMissing (cluster=gpu01)" in said
        assert "wave 2: not changed: gpu02" in said
        assert fleet.servers["gpu02"].has_rules()
        said = fleet.play("info", "--tags=alerts", limit)
        assert (fleet.code, said.count("KubegpuSchedulerMissing")) == (0, 2), said[-6000:]
        # It goes on once that is mended, and the alert that fired before stops nothing.
        watch.lose("gpu02")
        watch.fires("gpu02")
        said = fleet.play("rollout", limit)
        assert fleet.code == 0, said[-6000:]
        assert not {"gpu01", "gpu02"}.intersection(fleet.with_rules())
    # Without that Prometheus it does not go on: nothing is known of alerts.
    said = fleet.play("info", "--tags=alerts", limit)
    assert (fleet.code, "which alerts fire was not read" in said) == (2, True), said[-6000:]
