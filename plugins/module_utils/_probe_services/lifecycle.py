# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of the services that a tenant's network policies let through."""

from __future__ import annotations

import contextlib
import typing as t

from .._common.errors import TenancyError, WaitTimeout
from .._common.ownership import is_owned
from .._common.pods import is_ready, pod_state
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from .._probe.lifecycle import CLEAN_UP, own_namespace
from .._probe.status import record
from .plan import (
    EGRESS,
    INGRESS,
    SERVER,
    Check,
    Settings,
    client_in_tenant,
    client_name,
    client_on_host,
    host_client_name,
    server,
)
from .status import address_of, outcome

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube


def probe(host: Kube, inside: Kube, settings: Settings, checks: t.Sequence[Check], deadline: Deadline) -> list[JsonObject]:
    """Return the record of each check.

    :arg inside: the tenant's API; ``host``, that of its host cluster.
    """
    return _Probe(host, inside, settings, deadline).run(checks)


class _Probe:
    def __init__(self, host: Kube, inside: Kube, settings: Settings, deadline: Deadline) -> None:
        self._host = host
        self._inside = inside
        self._settings = settings
        self._deadline = deadline

    def run(self, checks: t.Sequence[Check]) -> list[JsonObject]:
        egress, ingress = ([check for check in checks if check.direction == direction] for direction in (EGRESS, INGRESS))
        with contextlib.ExitStack() as stack:
            stack.enter_context(own_namespace(self._inside, self._settings.namespace, self._deadline))
            stack.callback(self._remove_from_host, ingress)
            self._remove_from_host(ingress)
            missing = self._reach(egress) | self._be_reached(ingress)
            return self._records(checks, missing)

    def _reach(self, checks: t.Sequence[Check]) -> dict[Check, str]:
        """Start the clients in the tenant; return the checks that cannot be tried, and why."""
        missing = {}
        for check in checks:
            service = check.service
            if address := address_of(service, self._host.list("v1", "Pod", service["namespace"])):
                self._inside.create(client_in_tenant(self._settings, check, address))
            else:
                labels = ",".join(f"{key}={value}" for key, value in service["labels"].items())
                missing[check] = f"namespace {service['namespace']} has no ready pod{f' with {labels}' if labels else ''}"
        return missing

    def _be_reached(self, checks: t.Sequence[Check]) -> dict[Check, str]:
        """Start a server in the tenant and its clients on the host; return the checks that cannot be tried, and why."""
        if not checks:
            return {}
        namespaces = {check: self._host.get("v1", "Namespace", check.service["namespace"]) for check in checks}
        self._inside.create(server(self._settings, checks))
        address = wait_for("the server in the tenant", self._server_address, self._deadline, interval=0.5)
        for check, namespace in namespaces.items():
            if namespace:
                self._host.create(client_on_host(self._settings, check, address, namespace))
        return {
            check: f"the host cluster has no namespace {check.service['namespace']}"
            for check, namespace in namespaces.items()
            if not namespace
        }

    def _server_address(self) -> tuple[str | None, str]:
        pod = self._inside.get("v1", "Pod", SERVER, self._settings.namespace)
        if pod is None:
            raise TenancyError(f"pod {SERVER} was removed by someone else")
        return (pod["status"]["podIP"], "") if is_ready(pod) else (None, pod_state(pod))

    def _records(self, checks: t.Sequence[Check], missing: t.Mapping[Check, str]) -> list[JsonObject]:
        """Wait until all clients have ended, and return the record of each check."""
        records = {check: record(check.name, "not_tried", reason) for check, reason in missing.items()}

        def ended() -> tuple[bool | None, str]:
            waiting = []
            for check in checks:
                if check in records:
                    continue
                verdict, reason = outcome(check, self._client(check))
                if verdict:
                    records[check] = record(check.name, verdict, reason, self._deadline.elapsed())
                else:
                    waiting.append(f"{check.name}: {reason}")
            return (None, "; ".join(waiting)) if waiting else (True, "")

        try:
            wait_for("what the network lets through", ended, self._deadline, interval=0.5)
        except WaitTimeout as exc:
            for check in checks:
                records.setdefault(check, record(check.name, "failed", exc.message, self._deadline.elapsed()))
        return [records[check] for check in checks]

    def _client(self, check: Check) -> JsonObject | None:
        if check.direction == EGRESS:
            return self._inside.get("v1", "Pod", client_name(check), self._settings.namespace)
        return self._host.get("v1", "Pod", host_client_name(self._settings.tenant, check), check.service["namespace"])

    def _remove_from_host(self, checks: t.Iterable[Check]) -> None:
        """Remove the clients on the host, those of a probe that was killed, too."""
        for check in checks:
            ref = ("v1", "Pod", host_client_name(self._settings.tenant, check), check.service["namespace"])
            live = self._host.get(*ref)
            if live is None:
                continue
            if not is_owned(live):
                raise TenancyError(f"Pod {ref[2]} in namespace {ref[3]} is not this collection's. Remove it.")
            self._host.delete(*ref)

            def gone(ref: tuple[str, str, str, str] = ref) -> tuple[bool | None, str]:
                return (None, "it still exists") if self._host.get(*ref) else (True, "")

            wait_for(f"the end of pod {ref[2]}", gone, self._deadline.extended(CLEAN_UP), interval=0.3)
