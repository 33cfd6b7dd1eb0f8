# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Bring the gateway of a GPU host to the desired state."""

from __future__ import annotations

import os
import typing as t

from .._common.errors import TenancyError, refuse
from .._common.forms import is_namespace
from .._common.schema import Problems
from .._common.wait import wait_for
from .._kind.facts import CONTROL_PLANE_SUFFIX, NETWORK
from .._kind.validation import check_name
from .._kubeconfig.plan import read
from .facts import CLUSTER_SECTION, FOLDER, HAPROXY, PREFIX, TENANT_SECTION, UNITS
from .plan import Need, need
from .status import Service, bound, changes, described, owner, ports
from .validation import gateway, port_problems, target
from .values import Forward, Target, configuration, node_of, placeholder, places, resolved, script, unit

if t.TYPE_CHECKING:
    from .._adapters.docker import Docker
    from .._adapters.files import Files
    from .._adapters.haproxy import HAProxy
    from .._adapters.services import Services
    from .._common.run import Result, Run
    from .._common.values import JsonObject

_ENDING = ".yml"
# Stands for the nodes' addresses where HAProxy checks a configuration: a node that does not run has none.
LOOPBACK = "127.0.0.1"


class Kubeconfigs:
    """The kubeconfigs of one cluster on its host, and where they lead.

    :ivar unread: why kubeconfigs of tenants could not be read.
    """

    def __init__(self, run: Run, files: Files) -> None:
        self._run = run
        self._files = files
        self.unread: list[str] = []

    def forwards(self, nodes: t.Mapping[str, str]) -> list[Forward]:
        """Return what is forwarded: the host cluster's API server, if that is asked for, and that of each tenant.

        :arg nodes: names of the nodes' containers by their addresses.
        """
        params, forwards = self._run.params, []
        control_plane = f"{params['name']}{CONTROL_PLANE_SUFFIX}"
        if (kubeconfig := params["cluster_kubeconfig"]) and (there := self._target(kubeconfig)):
            # Docker publishes it on the loopback, and keeps that port.
            forwards.append(Forward(CLUSTER_SECTION, there.port, there.host))
        folder = params["tenants_dir"]
        for tenant in (file[: -len(_ENDING)] for file in self._files.names(folder) if file.endswith(_ENDING)):
            if is_namespace(tenant) and (there := self._target_of_tenant(f"{folder}/{tenant}{_ENDING}")):
                # A port of a node is answered on each of them; of a tenant that was not read since its node got another address, here.
                node = nodes.get(there.host, control_plane)
                forwards.append(Forward(f"{TENANT_SECTION}{tenant}", there.port, placeholder(node)))
        return forwards

    def _target_of_tenant(self, path: str) -> Target | None:
        """Return where a tenant's kubeconfig leads, as ``_target``; one that cannot be read keeps no other tenant's port as it was."""
        try:
            return self._target(path)
        except TenancyError as exc:
            self.unread.append(f"{exc.message.rstrip('.')}. Write it again by site, or remove it.")
            return None

    def _target(self, path: str) -> Target | None:
        """Return where a kubeconfig leads; None, with a warning, where that is no port of a node, and where it is not there."""
        content = self._files.read(path)
        if content is None:
            return None
        found = target(read(content, path), path)
        if found is None:
            self._run.warn(f"{path} leads to no port of a node, and is not reached by the gateway.")
        return found


class Gateway:
    """The ports of one cluster that HAProxy forwards on its host.

    :arg run: its ``params`` are the options of the module gateway.
    """

    def __init__(self, run: Run, docker: Docker, files: Files, haproxy: HAProxy, services: Services) -> None:
        self._run = run
        self._params = run.params
        self._docker = docker
        self._files = files
        self._haproxy = haproxy
        self._services = services
        check_name(run.params["name"])
        self._at = places(run.params["name"])
        self._kubeconfigs = Kubeconfigs(run, files)

    def present(self) -> Result:
        """Forward the ports of all tenants that have a kubeconfig; without any, nothing is left running.

        :raises TenancyError: at the end for kubeconfigs of tenants that cannot be read, whose ports are then closed.
        """
        result = self._forward()
        if unread := self._kubeconfigs.unread:
            raise TenancyError(f"{' '.join(unread)} The ports of the other tenants are as desired.")
        return result

    def _forward(self) -> Result:
        settings, nodes = self._settings(), self._nodes()
        forwards = self._kubeconfigs.forwards({address: node for node, address in nodes.items()})
        if not forwards:
            return self.absent()
        at = self._at
        used = sorted({node_of(forward.server) for forward in forwards} - {""})
        text = configuration(self._params["name"], settings, forwards)
        program = self._haproxy.program()
        if program is None and not self._run.check_mode:
            raise TenancyError("This host has no haproxy: install it, or use role gateway, which does.")
        contents = dict(zip(at.written, (text, script(at), unit(self._params["name"], at, program or HAPROXY))))
        desired, running = resolved(text, nodes), self._read(at.runtime)
        service = Service.of_properties(self._services.properties(at.unit))
        self._check(resolved(text, dict.fromkeys(used, LOOPBACK)), running if service.active else None)
        missing = {path for path, content in contents.items() if self._read(path) != content}
        needed = need(running, desired, service, bool(missing - {at.configuration}))
        self._record(text, missing, needed, service)
        for path in (path for path in at.written if path in missing):
            self._run.perform(f"write {path}", "it is not as desired", self._writer(path, contents[path]))
        self._settle(needed, desired, service, service.stale or at.unit_file in missing)
        return self._result(needed, ports(text))

    def absent(self) -> Result:
        """Stop it and remove its files."""
        at = self._at
        found = [path for path in (at.folder, at.unit_file) if self._files.exists(path)]
        if not found:
            return self._result("nothing", {})
        before = described(self._read(at.configuration) or "")
        service = Service.of_properties(self._services.properties(at.unit))
        self._run.change_all(changes(before, {}) if before else [("gateway", "there", None)])
        runs = service.enabled or service.state != "inactive"
        if runs:
            self._run.perform(f"stop {at.unit}", "absent is desired", lambda: self._end(service))
        self._run.perform(f"remove {' and '.join(found)}", "absent is desired", self._remove)
        return self._result("stop" if runs else "nothing", {})

    # --- what is there ---

    def _settings(self) -> JsonObject:
        """Return address and networks in their usual form.

        :raises TenancyError: for others than an inventory may have.
        """
        problems = Problems()
        given = {key: self._params[key] for key in ("address", "allow")}
        found = gateway(given, "gateway", problems)
        problems.raise_if_any("the gateway")
        return found

    def _nodes(self) -> dict[str, str]:
        """Return the addresses of the nodes that run, by the names of their containers."""
        found = {}
        for container in self._docker.nodes(self._params["name"]):
            network = (container["NetworkSettings"].get("Networks") or {}).get(NETWORK) or {}
            if address := network.get("IPAddress"):
                found[container["Name"].lstrip("/")] = str(address)
        return found

    def _read(self, path: str) -> str | None:
        content = self._files.read(path)
        return None if content is None else content.decode(errors="replace")

    def _check(self, text: str, running: str | None) -> None:
        """Refuse a configuration that HAProxy refuses, and ports that cannot be bound.

        :arg running: with which HAProxy runs; None where it does not.
        """
        address, ours = described(text)["address"], bound(running or "")
        wanted = {owner(section): port for section, port in ports(text).items()}
        tried = {port for port in wanted.values() if (address, port) not in ours}
        held = {port: why for port in tried if (why := self._haproxy.unbindable(address, port))}
        refuse(port_problems(wanted, held, address))
        self._haproxy.validate(text)

    # --- what is changed ---

    def _record(self, text: str, missing: set[str], needed: Need, service: Service) -> None:
        """Record what changes: what the configuration says, else the files, else how the service runs."""
        differing = list(changes(described(self._read(self._at.configuration) or ""), described(text)))
        self._run.change_all(differing)
        if not differing:
            self._run.change_all((path, "another content", "as desired") for path in sorted(missing))
        if not service.active or not service.enabled:
            state = service.state if service.enabled else f"{service.state}, not enabled"
            self._run.change("service", state, "active")
        elif needed != "nothing" and not self._run.changes:
            self._run.change("service", "runs with another configuration", "active")

    def _writer(self, path: str, content: str) -> t.Callable[[], None]:
        def write() -> None:
            if path.startswith(FOLDER):
                self._files.make_directories(self._at.folder)
            self._files.write(path, content.encode())

        return write

    def _settle(self, needed: Need, desired: str, service: Service, new_unit: bool) -> None:
        """Have HAProxy run with the files, now and after a restart of the host."""
        if needed == "nothing" and service.enabled:
            return
        at, left = self._at, self._run.deadline.left

        def settle() -> None:
            try:
                if new_unit or not service.enabled:
                    self._services.enable(at.unit, left())
                if needed != "nothing":
                    self._services.bring(needed, at.unit, left())
                    wait_for(f"{at.unit} to answer", lambda: self._answers(desired), self._run.deadline)
            except TenancyError as exc:
                log = self._services.log(at.unit)
                raise exc.saying(f"{exc.message} The log of {at.unit} ends with:\n{log}") from exc

        why = "it runs with another configuration" if service.active else "it does not run"
        step, why = ("enable", "it would not start with the host") if needed == "nothing" else (needed, why)
        self._run.perform(f"{step} {at.unit}", why, settle)

    def _answers(self, desired: str) -> tuple[bool | None, str]:
        """Tell whether HAProxy runs with a configuration: its ports take connections."""
        if self._read(self._at.runtime) != desired:
            return None, f"{self._at.runtime} is another one"
        silent = sorted(port for address, port in bound(desired) if not self._haproxy.answers(address, port))
        return (None, f"no answer on port {', '.join(map(str, silent))}") if silent else (True, "")

    def _end(self, service: Service) -> None:
        self._services.end(self._at.unit, service.enabled, self._run.deadline.left())

    def _remove(self) -> None:
        at = self._at
        if self._files.exists(at.folder):
            self._files.remove_tree(at.folder, os.path.dirname(at.folder))
            self._files.remove_empty(os.path.dirname(at.folder), FOLDER)
        self._files.remove_written(at.unit_file)
        self._services.forget(at.unit, self._run.deadline.left())

    def _result(self, needed: Need, found: t.Mapping[str, int]) -> Result:
        others = [name for name in self._files.names(UNITS) if name.startswith(PREFIX) and name.endswith(".service")]
        return self._run.result(
            service=needed,
            ports={owner(section): port for section, port in found.items() if section != CLUSTER_SECTION},
            cluster_port=found.get(CLUSTER_SECTION),
            others=[name for name in others if name != self._at.unit],
        )
