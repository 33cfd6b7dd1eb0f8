# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether the services that a tenant's network lets through are reached.

A client ends once it has reached everything, or after some tries; what it says is its termination message. So neither a log nor a shell in a
pod is needed to see it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from .._common.errors import TenancyError
from .._common.ownership import OWNED_LABELS, is_owned, labels_of, selector_of
from .._common.pods import is_ready, pod_spec, pod_state
from .._common.values import JsonObject
from .._common.wait import wait_for
from .facts import FAILED, NOT_TRIED, PASSED
from .lifecycle import CLEAN_UP, INTERVAL, Connect, await_verdicts, own_namespace
from .plan import Settings, pod
from .status import Verdict, concluded, record, termination_message, untried

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Result, Run

NAME = "kubegpu-services-probe"
EGRESS, INGRESS = "egress", "ingress"
SERVER = "server"
# Tries of a client, a second or more apart: what enforces policies learns of a new pod only after it runs.
TRIES = 30


@dataclasses.dataclass(frozen=True, eq=False)
class Check:
    """A service that the tenant may reach, or that may reach the tenant.

    :ivar direction: EGRESS or INGRESS.
    :ivar number: among those of its direction.
    :ivar service: name, namespace, labels and ports, as option ``network`` has them.
    """

    direction: str
    number: int
    service: t.Mapping[str, t.Any]

    def __str__(self) -> str:
        return f"{self.direction} {self.service['name']}"


def probe(run: Run, connect: Connect) -> Result:
    """Return the record of each service.

    :arg connect: returns the adapter to the tenant's API server.
    """
    checks = checks_of(run.params["network"])
    if run.check_mode or not checks:
        return concluded(untried(map(str, checks)), 0.0)
    records = _Probe(run, connect()).run(checks)
    return concluded(records, run.deadline.elapsed())


class _Probe:
    def __init__(self, run: Run, inside: Kube) -> None:
        self._host = run.kube
        self._inside = inside
        self._tenant: str = run.params["tenant"]
        self._settings = Settings.of(run.params)
        self._deadline = run.deadline

    def run(self, checks: t.Sequence[Check]) -> list[JsonObject]:
        egress, ingress = ([check for check in checks if check.direction == direction] for direction in (EGRESS, INGRESS))
        with contextlib.ExitStack() as stack:
            stack.enter_context(own_namespace(self._inside, self._settings.namespace, self._deadline))
            stack.callback(self._remove_from_host, ingress)
            self._remove_from_host(ingress)
            missing = self._reach(egress) | self._be_reached(ingress)
            tried = [check for check in checks if check not in missing]
            found = dict(zip(tried, await_verdicts("what the network lets through", tried, lambda: self._judge, self._deadline)))
            return [found.get(check) or record(str(check), NOT_TRIED, missing[check]) for check in checks]

    def _reach(self, checks: t.Sequence[Check]) -> dict[Check, str]:
        """Start the clients in the tenant; return the checks that cannot be tried, and why."""
        missing = {}
        for check in checks:
            service = check.service
            if address := address_of(service, self._host.list("v1", "Pod", service["namespace"])):
                self._inside.create(client_in_tenant(self._settings, check, address))
            else:
                labels = selector_of(service["labels"])
                missing[check] = f"namespace {service['namespace']} has no ready pod{f' with {labels}' if labels else ''}"
        return missing

    def _be_reached(self, checks: t.Sequence[Check]) -> dict[Check, str]:
        """Start a server in the tenant and its clients on the host; return the checks that cannot be tried, and why."""
        if not checks:
            return {}
        namespaces = {check: self._host.get("v1", "Namespace", check.service["namespace"]) for check in checks}
        self._inside.create(server(self._settings, checks))
        address = wait_for("the server in the tenant", self._server_address, self._deadline, INTERVAL)
        for check, namespace in namespaces.items():
            if namespace:
                self._host.create(client_on_host(self._settings, self._tenant, check, address, namespace))
        return {
            check: f"the host cluster has no namespace {check.service['namespace']}"
            for check, namespace in namespaces.items()
            if not namespace
        }

    def _server_address(self) -> tuple[str | None, str]:
        live = self._inside.get("v1", "Pod", SERVER, self._settings.namespace)
        if live is None:
            raise TenancyError(f"pod {SERVER} was removed by someone else")
        return (live["status"]["podIP"], "") if is_ready(live) else (None, pod_state(live))

    def _judge(self, check: Check) -> Verdict:
        if check.direction == EGRESS:
            return outcome(check, self._inside.get("v1", "Pod", client_name(check), self._settings.namespace))
        return outcome(check, self._host.get("v1", "Pod", host_client_name(self._tenant, check), check.service["namespace"]))

    def _remove_from_host(self, checks: t.Iterable[Check]) -> None:
        """Remove the clients on the host, those of a probe that was killed, too."""
        for check in checks:
            ref = ("v1", "Pod", host_client_name(self._tenant, check), check.service["namespace"])
            live = self._host.get(*ref)
            if live is None:
                continue
            if not is_owned(live):
                raise TenancyError(f"Pod {ref[2]} in namespace {ref[3]} is not this collection's. Remove it.")
            self._host.delete(*ref)

            def gone(ref: tuple[str, str, str, str] = ref) -> tuple[bool | None, str]:
                return (None, "it still exists") if self._host.get(*ref) else (True, "")

            wait_for(f"the end of pod {ref[2]}", gone, self._deadline.extended(CLEAN_UP), interval=0.3)


# --- what is made ----------------------------------------------------------------------------------------------------


def checks_of(network: t.Mapping[str, t.Any]) -> list[Check]:
    """Return a check for each service of option ``network``."""
    return [
        Check(direction, number, service)
        for direction in (EGRESS, INGRESS)
        for number, service in enumerate(network.get(direction) or [])
    ]


def server(settings: Settings, checks: t.Iterable[Check]) -> JsonObject:
    """Return the tenant's pod that listens at all ports at which the services of some checks may reach it."""
    ports = sorted({port for check in checks for port in check.service["ports"]})
    listen = " && ".join(f"httpd -p {port} -h /tmp" for port in ports)
    ready = {"tcpSocket": {"port": ports[-1]}, "periodSeconds": 1}
    spec = pod_spec(settings.image, f"{listen} && trap 'exit 0' TERM; sleep 3600 & wait", readinessProbe=ready)
    if ports[0] < 1024:
        # As all pods of the probe, it is not root's; any pod security standard lets this be set.
        spec["securityContext"]["sysctls"] = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    return pod(settings, spec, name=SERVER)


def client_in_tenant(settings: Settings, check: Check, address: str) -> JsonObject:
    """Return the tenant's pod that has to reach a service.

    :arg address: of one of the service's pods.
    """
    return pod(settings, _client_spec(settings, check, address), name=client_name(check))


def client_on_host(settings: Settings, tenant: str, check: Check, address: str, namespace: JsonObject) -> JsonObject:
    """Return the pod with a service's namespace and labels that has to reach the tenant's.

    Because it has a controller, no other one adopts it; because it is never ready, no Service sends it requests.

    :arg address: of the tenant's pod.
    :arg namespace: the service's, as it is on the host cluster.
    """
    never = {"exec": {"command": ["/bin/false"]}, "periodSeconds": 60}
    owner = {"apiVersion": "v1", "kind": "Namespace", "controller": True}
    owner |= {key: namespace["metadata"][key] for key in ("name", "uid")}
    return pod(
        settings,
        _client_spec(settings, check, address, readinessProbe=never),
        name=host_client_name(tenant, check),
        namespace=check.service["namespace"],
        labels=dict(check.service["labels"]) | OWNED_LABELS,
        ownerReferences=[owner],
    )


def client_name(check: Check) -> str:
    """Return the name of a client in the tenant."""
    return f"{check.direction}-{check.number}"


def host_client_name(tenant: str, check: Check) -> str:
    """Return the name of a client on the host cluster."""
    return f"{NAME}-{tenant}-{check.number}"


def _client_spec(settings: Settings, check: Check, address: str, **container: t.Any) -> JsonObject:
    # Once it is connected, nc runs a program that ends at once: not every busybox has its option -z.
    each = (
        f"tries=0; until said=$(nc -w 2 {address} $port -e true 2>&1); do tries=$((tries + 1)); "
        f'if [ $tries -ge {TRIES} ]; then echo "port $port: ${{said:-no answer}}" > /dev/termination-log; exit 1; fi; sleep 1; done'
    )
    script = f"for port in {' '.join(map(str, check.service['ports']))}; do {each}; done"
    return pod_spec(settings.image, script, **container) | {"restartPolicy": "Never"}


# --- what is seen ----------------------------------------------------------------------------------------------------


def address_of(service: t.Mapping[str, t.Any], pods: t.Iterable[JsonObject]) -> str:
    """Return the address of the first ready pod of a service; empty where it has none.

    Those on their node's own network are left out: the rules of a network policy for pods do not hold for them.

    :arg pods: of the service's namespace.
    """
    ready = {
        pod["metadata"]["name"]: pod["status"]["podIP"]
        for pod in pods
        if is_ready(pod) and not pod["spec"].get("hostNetwork") and labels_of(pod).items() >= service["labels"].items()
    }
    return str(ready[min(ready)]) if ready else ""


def outcome(check: Check, pod: JsonObject | None) -> Verdict:
    """Return the verdict on the client of a check once it has ended; None for one that is not there."""
    if pod is None:
        return FAILED, "the probe's pod was removed by someone else"
    phase = pod.get("status", {}).get("phase")
    service = check.service
    peer, ports = f"namespace {service['namespace']}", ", ".join(map(str, service["ports"]))
    way = f"{peer} from the tenant" if check.direction == EGRESS else f"the tenant from {peer}"
    if phase == "Succeeded":
        return PASSED, f"reached {way} at TCP {ports}"
    if phase == "Failed":
        return FAILED, f"did not reach {way}: {termination_message(pod)}"
    return None, pod_state(pod)
