# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the probe of the services of the host cluster that a tenant's network policies let through.

A client ends once it has reached everything, or after some tries; what it says is its termination message. So neither a log nor a shell in a
pod is needed to see it.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.ownership import OWNED_LABELS
from .._common.pods import pod_spec
from .._common.values import JsonObject
from .._probe.plan import IMAGE

NAME = "kubegpu-services-probe"
EGRESS, INGRESS = "egress", "ingress"
SERVER = "server"
# Tries of a client, a second or more apart: what enforces policies learns of a new pod only after it runs.
TRIES = 30


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the probe runs.

    :ivar namespace: of its pods in the tenant.
    """

    tenant: str
    namespace: str = NAME
    image: str = IMAGE
    tolerations: tuple[JsonObject, ...] = ()


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

    @property
    def name(self) -> str:
        return f"{self.direction} {self.service['name']}"


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
    return _pod(settings, SERVER, settings.namespace, spec)


def client_in_tenant(settings: Settings, check: Check, address: str) -> JsonObject:
    """Return the tenant's pod that has to reach a service.

    :arg address: of one of the service's pods.
    """
    return _pod(settings, client_name(check), settings.namespace, _client_spec(settings, check, address))


def client_on_host(settings: Settings, check: Check, address: str, namespace: JsonObject) -> JsonObject:
    """Return the pod with a service's namespace and labels that has to reach the tenant's.

    Because it has a controller, no other one adopts it; because it is never ready, no Service sends it requests.

    :arg address: of the tenant's pod.
    :arg namespace: the service's, as it is on the host cluster.
    """
    never = {"exec": {"command": ["/bin/false"]}, "periodSeconds": 60}
    pod = _pod(
        settings,
        host_client_name(settings.tenant, check),
        check.service["namespace"],
        _client_spec(settings, check, address, never),
    )
    owner = {"apiVersion": "v1", "kind": "Namespace", "controller": True}
    owner |= {key: namespace["metadata"][key] for key in ("name", "uid")}
    labels = dict(check.service["labels"]) | OWNED_LABELS
    return pod | {"metadata": pod["metadata"] | {"labels": labels, "ownerReferences": [owner]}}


def client_name(check: Check) -> str:
    """Return the name of a client in the tenant."""
    return f"{check.direction}-{check.number}"


def host_client_name(tenant: str, check: Check) -> str:
    """Return the name of a client on the host cluster."""
    return f"{NAME}-{tenant}-{check.number}"


def _client_spec(settings: Settings, check: Check, address: str, readiness: JsonObject | None = None) -> JsonObject:
    # Once it is connected, nc runs a program that ends at once: not every busybox has its option -z.
    each = (
        f"tries=0; until said=$(nc -w 2 {address} $port -e true 2>&1); do tries=$((tries + 1)); "
        f'if [ $tries -ge {TRIES} ]; then echo "port $port: ${{said:-no answer}}" > /dev/termination-log; exit 1; fi; sleep 1; done'
    )
    script = f"for port in {' '.join(map(str, check.service['ports']))}; do {each}; done"
    return pod_spec(settings.image, script, **({"readinessProbe": readiness} if readiness else {})) | {"restartPolicy": "Never"}


def _pod(settings: Settings, name: str, namespace: str, spec: JsonObject) -> JsonObject:
    placed = {"tolerations": list(settings.tolerations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec | placed}
