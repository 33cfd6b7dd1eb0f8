# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Pods that show whether a network policy is enforced: a server, clients that keep asking it, a policy that forbids it.

Whether a client reaches the server is the client's readiness: neither a log nor a shell in a pod is needed to see it.
"""

from __future__ import annotations

import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import is_ready, own_namespace, page_spec, pod_spec
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.status import pod_state

Object = dict[str, t.Any]

NAME = "kubegpu-network-probe"
IMAGE = "docker.io/library/busybox:1.37.0"
TIMEOUT, POLICY_TIMEOUT = 90, 30
PORT = 8080
SERVER = "server"
PATHS = ("same_node", "across_nodes")
POLICY = ("networking.k8s.io/v1", "NetworkPolicy")

_SERVER_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": SERVER}
_CLIENT_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "client"}


def places(nodes: t.Iterable[Object]) -> dict[str, str]:
    """The node of each path's client; the server is on that of the first.

    :raises TenancyError: where no node takes a pod.
    """
    names = sorted(node["metadata"]["name"] for node in nodes if _takes_pods(node))
    if not names:
        raise TenancyError("No node is ready and takes pods that tolerate nothing, so network policies cannot be probed.")
    return dict(zip(PATHS, names, strict=False))


def _takes_pods(node: Object) -> bool:
    spec = node.get("spec", {})
    tainted = any(taint["effect"] in ("NoSchedule", "NoExecute") for taint in spec.get("taints") or [])
    return is_ready(node) and not spec.get("unschedulable") and not tainted


def server(namespace: str, image: str, node: str) -> Object:
    return _pod(SERVER, namespace, _SERVER_LABELS, page_spec(image, NAME, PORT), node)


def client(path: str, namespace: str, image: str, node: str, address: str) -> Object:
    """Ready while it reaches the server; three failures in a row are needed to say that it does not.

    :arg address: the server's.
    """
    host = f"[{address}]" if ":" in address else address
    ask = ["wget", "-q", "-T", "2", "-O", "/dev/null", f"http://{host}:{PORT}/"]
    probe = {"exec": {"command": ask}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3}
    spec = pod_spec(image, "trap 'exit 0' TERM; sleep 3600 & wait", readinessProbe=probe)
    return _pod(_client_name(path), namespace, _CLIENT_LABELS, spec, node)


def policy(namespace: str) -> Object:
    """Nobody may reach the server."""
    api_version, kind = POLICY
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": _SERVER_LABELS}, "policyTypes": ["Ingress"], "ingress": []},
    }


def _pod(name: str, namespace: str, labels: dict[str, str], spec: Object, node: str) -> Object:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | {"affinity": affinity}}


def _client_name(path: str) -> str:
    return f"client-{path.replace('_', '-')}"


def server_address(pods: list[Object]) -> tuple[str | None, str]:
    """Where the server answers, or None and what is seen of it."""
    for pod in pods:
        if pod["metadata"]["name"] == SERVER:
            return (pod["status"]["podIP"], "") if is_ready(pod) else (None, pod_state(pod))
    return None, "the server's pod does not exist"


def reaching(pods: list[Object], paths: t.Iterable[str]) -> tuple[set[str], str]:
    """The paths on which the server is reached, and what is seen of the others."""
    found = {pod["metadata"]["name"]: pod for pod in pods}
    reached = {path for path in paths if is_ready(found.get(_client_name(path), {}))}
    missed = [_client_name(path) for path in paths if path not in reached]
    return reached, "; ".join(pod_state(found[name]) if name in found else f"pod {name} does not exist" for name in missed)


def result(path: str, verdict: str, reason: str, seconds: float = 0.0) -> Object:
    return {"name": path, "verdict": verdict, "reason": reason, "seconds": round(seconds, 1)}


def results(nodes: dict[str, str], cut_off: dict[str, float], bound: int) -> list[Object]:
    """The record of each path.

    :arg nodes: as ``places`` chose them.
    :arg cut_off: after how many seconds the policy took effect on a path.
    :arg bound: seconds it was given.
    """
    there = nodes[PATHS[0]]
    records = []
    for path, here in nodes.items():
        way = f"from {here} to {there}"
        if path in cut_off:
            records.append(result(path, "enforced", f"the server was not reached any more {way}", cut_off[path]))
        else:
            records.append(result(path, "unenforced", f"the server was still reached {way}, against the policy", bound))
    return records


# --- the probe itself --------------------------------------------------------------------------------------------


def look(
    kube: Kube, namespace: str = NAME, image: str = IMAGE, timeout: int = TIMEOUT, policy_timeout: int = POLICY_TIMEOUT
) -> tuple[bool, list[Object]]:
    """Whether policies are enforced on all paths, and the record of each.

    :arg namespace: made for the probe, and removed.
    :arg timeout: seconds for the pods; ``policy_timeout``, for the policy to take effect.
    """
    found = _Probe(kube, namespace, image, timeout, policy_timeout).run()
    return all(record["verdict"] == "enforced" for record in found), found


class _Probe:
    def __init__(self, kube: Kube, namespace: str, image: str, timeout: int, policy_timeout: int) -> None:
        self.kube = kube
        self.namespace = namespace
        self.image = image
        self.timeout = timeout
        self.policy_timeout = policy_timeout
        self.nodes = places(kube.list("v1", "Node"))

    def run(self) -> list[Object]:
        with own_namespace(self.kube, self.namespace, self.timeout):
            self._start()
            self.kube.create(policy(self.namespace))
            cut_off = self._cut_off()
            self.kube.delete(*POLICY, NAME, self.namespace)
            # Had the server died meanwhile, it would look like a policy that is enforced.
            self._wait_until_reached("the clients to reach the server again without the policy", self.policy_timeout)
            return results(self.nodes, cut_off, self.policy_timeout)

    def _start(self) -> None:
        self.kube.create(server(self.namespace, self.image, self.nodes[PATHS[0]]))
        address = wait_for("the server", lambda: server_address(self._pods()), self.timeout, interval=0.5)
        for path, node in self.nodes.items():
            self.kube.create(client(path, self.namespace, self.image, node, address))
        self._wait_until_reached("the clients to reach the server while nothing forbids it", self.timeout)

    def _wait_until_reached(self, what: str, timeout: int) -> None:
        def look() -> tuple[bool | None, str]:
            reached, seen = reaching(self._pods(), self.nodes)
            return (True, "") if reached == set(self.nodes) else (None, seen)

        wait_for(what, look, timeout, interval=0.5)

    def _cut_off(self) -> dict[str, float]:
        """After how many seconds the server was not reached any more, by path."""
        start = time.monotonic()
        cut_off: dict[str, float] = {}

        def look() -> tuple[bool | None, str]:
            nonlocal cut_off
            reached, _seen = reaching(self._pods(), self.nodes)
            now = time.monotonic() - start
            cut_off = {path: cut_off.get(path, now) for path in self.nodes if path not in reached}
            return (None, "") if reached else (True, "")

        try:
            wait_for("the policy to take effect", look, self.policy_timeout, interval=0.5)
        except TenancyError as exc:
            # That it takes none is an answer; anything else is not.
            if "last_seen" not in exc.details:
                raise
        return cut_off

    def _pods(self) -> list[Object]:
        return self.kube.list("v1", "Pod", self.namespace)
