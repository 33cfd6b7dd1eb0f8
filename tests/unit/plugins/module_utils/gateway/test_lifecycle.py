# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway on a host with doubles of Docker, systemd and HAProxy, also killed at every step."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.docker import CLUSTER_LABEL, Docker
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import Files
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.haproxy import HAProxy
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.services import Services
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway import lifecycle, values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._gateway.lifecycle import Gateway
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

UNIT = "kubegpu-gateway-dc1.service"
CONTROL_PLANE, WORKER = "dc1-control-plane", "dc1-worker"


class Killed(Exception):
    """The run ended here."""


class Ports(HAProxy):
    """HAProxy's program, and ports of the host: those that others hold, and those that answer."""

    host: Host

    def program(self) -> str | None:
        return "/usr/sbin/haproxy" if self.host.installed else None

    def unbindable(self, address: str, port: int) -> str:
        return self.host.held.get(port, "")

    def answers(self, address: str, port: int) -> bool:
        return self.host.state == "active" and f"{address}:{port}\n" in self.host.served


class Host:
    """A GPU host with a kind cluster of two nodes.

    :ivar served: the configuration that HAProxy has read.
    :ivar kill_at: the number of calls of systemctl after which the run is killed.
    """

    def __init__(self, top: pathlib.Path) -> None:
        self.top = top
        self.nodes = {CONTROL_PLANE: "172.18.0.2", WORKER: "172.18.0.3"}
        self.installed, self.enabled, self.fails = True, False, False
        self.state, self.served, self.refused = "inactive", "", "\0"
        self.held: dict[int, str] = {}
        self.did: list[str] = []
        self.calls, self.kill_at, self.now = 0, 1000, 0.0
        for folder in ("kubegpu/dc1/tenants", "units", "run"):
            (top / folder).mkdir(parents=True)
        self.cluster_kubeconfig = self.kubeconfig("cluster", "https://127.0.0.1:41235", "kubegpu/dc1")

    def kubeconfig(self, name: str, server: str, folder: str = "kubegpu/dc1/tenants") -> str:
        context = {"name": name, "context": {"cluster": name, "user": name}}
        config = {"clusters": [{"name": name, "cluster": {"server": server}}], "contexts": [context], "current-context": name}
        path = self.top / folder / f"{name}.yml"
        path.write_text(json.dumps(config))
        return str(path)

    @property
    def unit(self) -> pathlib.Path:
        return self.top / "units" / UNIT

    @property
    def runtime(self) -> pathlib.Path:
        return self.top / "run/kubegpu-gateway-dc1/haproxy.cfg"

    def run_program(self, args: list[str], **_more: t.Any) -> tuple[int, str, str]:
        if args[0] == "timeout":
            args = args[3:]
        if args[0] == "systemctl":
            self.calls += 1
            if self.calls > self.kill_at:
                raise Killed
            return self.systemctl(*args[1:])
        if args[0] == "/docker":
            return self.docker(args[1:])
        if args[0] == "journalctl":
            return 0, "cannot bind\n", ""
        assert args[:3] == ["/usr/sbin/haproxy", "-c", "-f"], args
        return (1 if self.refused in pathlib.Path(args[3]).read_text() else 0), "", f"[ALERT] {args[3]}:7 : bad\n"

    def docker(self, args: list[str]) -> tuple[int, str, str]:
        if args[0] == "ps":
            assert f"label={CLUSTER_LABEL}=dc1" in args
            return 0, "\n".join(self.nodes), ""
        found = [
            {"Name": f"/{name}", "NetworkSettings": {"Networks": {"kind": {"IPAddress": self.nodes[name]}}}} for name in args[3:]
        ]
        return 0, json.dumps(found), ""

    def systemctl(self, verb: str, *args: str) -> tuple[int, str, str]:
        if verb == "show":
            return 0, f"ActiveState={self.state}\nUnitFileState={'enabled' if self.enabled else ''}\nNeedDaemonReload=no\n", ""
        if verb in ("daemon-reload", "reset-failed"):
            return 0, "", ""
        self.did.append(verb)
        if verb == "stop":
            self.state, self.served = "inactive", ""
            self.runtime.unlink(missing_ok=True)
            return 0, "", ""
        assert self.unit.exists(), verb
        if verb in ("enable", "disable"):
            self.enabled = verb == "enable"
            return 0, "", ""
        if self.fails:
            self.state = "failed"
            return 1, "", f"Job for {args[0]} failed.\n"
        self.start()
        return 0, "", ""

    def start(self) -> None:
        """Do what the unit does when it starts or is reloaded."""
        self.runtime.parent.mkdir(exist_ok=True)
        text = (self.top / "kubegpu/dc1/gateway/haproxy.cfg").read_text()
        self.served, self.state = values.resolved(text, self.nodes), "active"
        self.runtime.write_text(self.served)

    def gateway(self, state: str, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        params = {
            "state": state,
            "name": "dc1",
            "address": "10.0.0.5",
            "allow": ["10.20.0.0/16"],
            "tenants_dir": str(self.top / "kubegpu/dc1/tenants"),
            "cluster_kubeconfig": None,
            "timeout": 60,
        } | options
        run = Run(params, check_mode, deadline=Deadline(60, lambda: self.now, self.sleep))
        haproxy = Ports(self.run_program, lambda name: f"/{name}")
        haproxy.host = self
        programs = (self.run_program, lambda name: f"/{name}")
        gateway = Gateway(run, Docker(*programs), Files(), haproxy, Services(*programs))
        result = gateway.present() if state == "present" else gateway.absent()
        for step in result.get("steps", []):
            step.pop("seconds", None)
        return result | {"warnings": run.warnings}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def present(self, **options: t.Any) -> dict[str, t.Any]:
        return self.gateway("present", **options)

    def absent(self, **options: t.Any) -> dict[str, t.Any]:
        return self.gateway("absent", **options)

    def listing(self) -> dict[str, tuple[int, bytes | None]]:
        return {str(p): (p.stat().st_mode, p.read_bytes() if p.is_file() else None) for p in self.top.rglob("*")}


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    for module in (values, lifecycle):
        monkeypatch.setattr(module, "FOLDER", str(tmp_path / "kubegpu"))
        monkeypatch.setattr(module, "UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(values, "RUNTIME", str(tmp_path / "run"))
    host = Host(tmp_path)
    host.kubeconfig("web", "https://172.18.0.3:31234")
    return host


def test_there_and_back(host: Host) -> None:
    before = host.listing()
    predicted = host.present(check_mode=True)
    assert (predicted["changed"], host.listing(), host.did) == (True, before, [])
    done = host.present()
    assert done == predicted
    assert done["diff"] == {
        "before": {"service": "inactive, not enabled"},
        "after": {"address": "10.0.0.5", "allow": ["10.20.0.0/16"], "port of web": 31234, "service": "active"},
    }
    assert (done["service"], done["ports"], done["cluster_port"], done["others"]) == ("restart", {"web": 31234}, None, [])
    assert [step["step"].partition(" ")[0] for step in done["steps"]] == ["write", "write", "write", "restart"]
    assert "server node 172.18.0.3:31234\n" in host.served
    assert (host.did, host.enabled) == (["enable", "restart"], True)
    again = host.present()
    assert (again["changed"], again["service"], "steps" in again) == (False, "nothing", False)

    predicted = host.absent(check_mode=True)
    assert host.state == "active"
    gone = host.absent()
    assert gone == predicted
    assert (gone["service"], gone["ports"], gone["diff"]["before"]["port of web"]) == ("stop", {}, 31234)
    host.runtime.parent.rmdir()
    assert (host.listing(), host.state, host.enabled) == (before, "inactive", False)
    assert not host.absent()["changed"]


def test_a_tenant_more_or_less_keeps_the_connections_of_the_others(host: Host) -> None:
    host.present()
    host.did.clear()
    ml = host.kubeconfig("ml", "https://172.18.0.2:32001")
    done = host.present()
    assert (done["service"], done["ports"], host.did) == ("reload", {"ml": 32001, "web": 31234}, ["reload"])
    assert "server node 172.18.0.2:32001\n" in host.served
    pathlib.Path(ml).unlink()
    done = host.present()
    assert (done["service"], done["diff"]["before"], ":32001" in host.served) == ("reload", {"port of ml": 32001}, False)


@pytest.mark.parametrize(
    ("options", "what"), [({"allow": ["192.0.2.0/24"]}, "allow"), ({"address": "10.0.0.6"}, "address")], ids=["allow", "address"]
)
def test_other_networks_and_addresses_end_connections(host: Host, options: dict[str, t.Any], what: str) -> None:
    host.present()
    done = host.present(**options)
    assert (done["service"], list(done["diff"]["after"])) == ("restart", [what])
    assert not host.present(**options)["changed"]


def test_the_host_clusters_api_is_closed_unless_asked_for(host: Host) -> None:
    host.present()
    assert ":41235" not in host.served
    done = host.present(cluster_kubeconfig=host.cluster_kubeconfig)
    assert (done["cluster_port"], done["ports"]) == (41235, {"web": 31234})
    assert "server node 127.0.0.1:41235\n" in host.served
    assert host.present()["diff"]["before"] == {"port of the cluster": 41235}


def test_the_last_tenant_takes_everything_with_it(host: Host) -> None:
    host.present()
    (host.top / "kubegpu/dc1/tenants/web.yml").unlink()
    assert (host.present()["service"], host.unit.exists(), host.enabled) == ("stop", False, False)
    assert not host.present()["changed"]


def test_a_node_with_another_address_is_found_again(host: Host) -> None:
    host.present()
    host.nodes[WORKER] = "172.18.0.9"
    host.kubeconfig("web", "https://172.18.0.9:31234")
    done = host.present()
    assert (done["service"], done["diff"]["before"]) == ("reload", {"service": "runs with another configuration"})
    assert "server node 172.18.0.9:31234\n" in host.served


def test_a_kubeconfig_with_a_former_address_leads_to_the_control_plane(host: Host) -> None:
    host.kubeconfig("web", "https://172.18.0.77:31234")
    host.present()
    assert "server node 172.18.0.2:31234\n" in host.served


def test_what_no_node_answers_has_no_port(host: Host) -> None:
    host.kubeconfig("lb", "https://lb.example")
    (host.top / "kubegpu/dc1/tenants/A b.yml").write_text("x")
    (host.top / "kubegpu/dc1/tenants/notes.txt").write_text("x")
    done = host.present()
    assert done["ports"] == {"web": 31234}
    assert done["warnings"] == [
        f"{host.top}/kubegpu/dc1/tenants/lb.yml leads to no port of a node, and is not reached by the gateway."
    ]


def test_a_port_that_cannot_be_bound_is_refused_with_what_holds_it(host: Host) -> None:
    host.held = {31234: "haproxy listens there (process 7 of kubegpu-gateway-b.service)"}
    before = host.listing()
    with refuses("port-in-use") as failure:
        host.present()
    assert "port 31234 of 10.0.0.5, for web, cannot be bound: haproxy listens there" in failure.value.message
    assert (host.listing(), host.did) == (before, [])


def test_a_kubeconfig_that_was_left_of_a_former_cluster_is_named(host: Host) -> None:
    host.kubeconfig("old", "https://172.18.0.77:31234")
    with refuses("same-port") as failure:
        host.present()
    assert "the kubeconfigs of old and web name the same port 31234" in failure.value.message
    assert not host.unit.exists()


def test_a_kubeconfig_that_cannot_be_read_fails_the_run_and_holds_no_other_port(host: Host) -> None:
    ml = host.kubeconfig("ml", "https://172.18.0.2:32001")
    host.present()
    pathlib.Path(ml).unlink()
    (host.top / "kubegpu/dc1/tenants/broken.yml").write_text("")
    with refuses("failed") as failure:
        host.present()
    assert "broken.yml" in failure.value.message
    assert (":32001" in host.served, ":31234" in host.served) == (False, True)


def test_own_ports_are_no_obstacle(host: Host) -> None:
    host.present()
    host.held = {31234: "haproxy listens there"}
    host.kubeconfig("ml", "https://172.18.0.3:32001")
    assert host.present()["service"] == "reload"


def test_what_haproxy_refuses_leaves_the_former_configuration(host: Host) -> None:
    host.present()
    before, host.refused = host.listing(), ":32001"
    host.kubeconfig("ml", "https://172.18.0.3:32001")
    with pytest.raises(TenancyError, match=r"haproxy\.cfg:7 : bad"):
        host.present()
    assert {path: item for path, item in host.listing().items() if not path.endswith("ml.yml")} == before


def test_a_host_without_haproxy(host: Host) -> None:
    host.installed = False
    assert host.present(check_mode=True)["changed"]
    with pytest.raises(TenancyError, match="has no haproxy"):
        host.present()
    assert not host.unit.exists()


def test_a_start_that_fails_shows_the_log_and_is_tried_again(host: Host) -> None:
    host.fails = True
    with pytest.raises(TenancyError, match="ends with:\ncannot bind"):
        host.present()
    host.fails = False
    assert host.present(check_mode=True)["diff"]["before"] == {"service": "failed"}
    assert host.present()["service"] == "restart"
    assert host.state == "active"


def test_a_change_by_hand_is_taken_back(host: Host) -> None:
    host.present()
    path = host.top / "kubegpu/dc1/gateway/haproxy.cfg"
    text = path.read_text()
    path.write_text(text.replace("    tcp-request connection reject unless allowed\n", ""))
    host.start()
    done = host.present()
    assert list(done["diff"]["before"]) == [str(path)]
    assert (host.served, path.read_text()) == (values.resolved(text, host.nodes), text)
    host.unit.write_text("[Unit]\n")
    assert host.present()["service"] == "restart"


def test_a_unit_that_does_not_start_with_the_host_is_enabled(host: Host) -> None:
    host.present()
    host.enabled = False
    done = host.present()
    assert (done["service"], [step["step"] for step in done["steps"]], host.enabled) == ("nothing", [f"enable {UNIT}"], True)


@pytest.mark.parametrize("calls", range(12))
def test_a_killed_run_is_finished_by_the_next(host: Host, calls: int) -> None:
    before = host.listing()
    host.kill_at = calls
    for state in ("present", "absent"):
        try:
            host.gateway(state)
        except Killed:
            host.kill_at = 1000
            host.gateway(state)
        if state == "present":
            assert (host.state, host.enabled, ":31234" in host.served) == ("active", True, True)
    host.runtime.parent.rmdir()
    assert (host.listing(), host.state, host.enabled) == (before, "inactive", False)


def test_gateways_of_other_clusters_are_named(host: Host) -> None:
    (host.top / "units/kubegpu-gateway-b.service").write_text("")
    assert host.present()["others"] == host.absent()["others"] == ["kubegpu-gateway-b.service"]


@pytest.mark.parametrize(
    ("options", "code"),
    [({"name": "../etc"}, "not-a-name"), ({"address": "::"}, "all-interfaces"), ({"allow": []}, "empty")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_of_the_module_are_those_of_an_inventory(host: Host, options: dict[str, t.Any], code: str) -> None:
    with refuses(code):
        host.present(**options)
