# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the probe of network policies: a server, clients that keep asking it, and a policy that forbids it.

Whether a client reaches the server is the client's readiness: neither a log nor a shell in a pod is needed to see it.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import TenancyError
from .._common.pods import is_ready, pod_spec
from .._common.values import JsonObject
from .._nodes.status import untolerated
from .._probe.plan import IMAGE, page_spec

NAME = "kubegpu-network-probe"
# Seconds for the whole probe, and those of them that a policy gets to take effect.
TIMEOUT, POLICY_TIMEOUT = 180, 30
PORT = 8080
SERVER = "server"
PATHS = ("same_node", "across_nodes")
POLICY = ("networking.k8s.io/v1", "NetworkPolicy")

_SERVER_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": SERVER}
_CLIENT_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "client"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the probe runs.

    :ivar policy_timeout: seconds that a policy gets to take effect.
    """

    namespace: str = NAME
    image: str = IMAGE
    policy_timeout: float = POLICY_TIMEOUT
    tolerations: tuple[JsonObject, ...] = ()


def places(nodes: t.Iterable[JsonObject], tolerations: t.Iterable[JsonObject] = ()) -> dict[str, str]:
    """Return the node of each path's client; the server is on that of the first.

    :arg tolerations: those of the probe's pods.
    :raises TenancyError: where no node takes them.
    """
    tolerations = list(tolerations)
    names = sorted(node["metadata"]["name"] for node in nodes if _takes_pods(node, tolerations))
    if not names:
        raise TenancyError(
            "No node is ready and takes the probe's pods, so network policies cannot be probed. "
            "Where all nodes are tainted, name the taints in tolerations."
        )
    return dict(zip(PATHS, names))


def _takes_pods(node: JsonObject, tolerations: list[JsonObject]) -> bool:
    return is_ready(node) and not node.get("spec", {}).get("unschedulable") and not untolerated(node, tolerations)


def server(settings: Settings, node: str) -> JsonObject:
    """Return the pod that serves a page."""
    return _pod(SERVER, settings, _SERVER_LABELS, page_spec(settings.image, NAME, PORT), node)


def client(settings: Settings, path: str, node: str, address: str) -> JsonObject:
    """Return a pod that is ready while it reaches the server; after three failures in a row it is not.

    :arg address: the server's.
    """
    host = f"[{address}]" if ":" in address else address
    ask = ["wget", "-q", "-T", "2", "-O", "/dev/null", f"http://{host}:{PORT}/"]
    probe = {"exec": {"command": ask}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3}
    spec = pod_spec(settings.image, "trap 'exit 0' TERM; sleep 3600 & wait", readinessProbe=probe)
    return _pod(client_name(path), settings, _CLIENT_LABELS, spec, node)


def policy(namespace: str) -> JsonObject:
    """Return the policy by which nobody may reach the server."""
    api_version, kind = POLICY
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": _SERVER_LABELS}, "policyTypes": ["Ingress"], "ingress": []},
    }


def _pod(name: str, settings: Settings, labels: dict[str, str], spec: JsonObject, node: str) -> JsonObject:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}}
    metadata = {"name": name, "namespace": settings.namespace, "labels": labels}
    placed = {"affinity": affinity, "tolerations": list(settings.tolerations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | placed}


def client_name(path: str) -> str:
    """Return the name of a path's client."""
    return f"client-{path.replace('_', '-')}"
