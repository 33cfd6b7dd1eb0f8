# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Probe whether network policies are enforced: a server, clients that keep asking it, and a policy that forbids it.

Whether a client reaches the server is the client's readiness: neither a log nor a shell in a pod is needed to see it.
"""

from __future__ import annotations

import contextlib
import typing as t

from .._common.errors import TenancyError, WaitTimeout
from .._common.pods import is_ready, pod_spec, pod_state
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from .._nodes.status import untolerated
from .lifecycle import INTERVAL, own_namespace
from .plan import Settings, on_node, page_spec, pod
from .status import concluded, record, untried

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Result, Run

NAME = "kubegpu-network-probe"
# Seconds that a policy gets to take effect.
POLICY_TIMEOUT = 30
PORT = 8080
SERVER = "server"
PATHS = ("same_node", "across_nodes")
# Its node is also that of the server.
SAME_NODE = PATHS[0]
POLICY = ("networking.k8s.io/v1", "NetworkPolicy")

_SERVER_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": SERVER}
_CLIENT_LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "client"}


def probe(run: Run) -> Result:
    """Return the record of each path, and as ``enforced`` whether policies are enforced on all of them; None in check mode.

    :raises TenancyError: when it cannot be found out.
    """
    enforced, records = None, untried(PATHS)
    if not run.check_mode:
        enforced, records = enforcement(run.kube, Settings.of(run.params), run.deadline, run.params["policy_timeout"])
    return concluded(records, run.deadline.elapsed()) | {"enforced": enforced}


def enforcement(
    kube: Kube, settings: Settings, deadline: Deadline, policy_timeout: float = POLICY_TIMEOUT
) -> tuple[bool, list[JsonObject]]:
    """Return whether network policies are enforced on all paths, and the record of each path.

    :arg policy_timeout: seconds that a policy gets to take effect, and again to lose it.
    :raises TenancyError: when it cannot be found out.
    """
    records = _Probe(kube, settings, deadline, policy_timeout).run()
    return all(record["verdict"] == "enforced" for record in records), records


class _Probe:
    def __init__(self, kube: Kube, settings: Settings, deadline: Deadline, policy_timeout: float) -> None:
        self._kube = kube
        self._settings = settings
        self._deadline = deadline
        self._policy_timeout = policy_timeout
        self._nodes = places(kube.list("v1", "Node"), settings.tolerations)

    def run(self) -> list[JsonObject]:
        namespace = self._settings.namespace
        with own_namespace(self._kube, namespace, self._deadline):
            self._start()
            self._require_time_for_the_policy()
            self._kube.create(policy(namespace))
            cut_off = self._cut_off()
            self._kube.delete(*POLICY, NAME, namespace)
            # Had the server died meanwhile, it would look like a policy that is enforced.
            self._wait_until_reached("the clients to reach the server again without the policy", self._policy_deadline())
            return results(self._nodes, cut_off, self._policy_timeout)

    def _start(self) -> None:
        self._kube.create(server(self._settings, self._nodes[SAME_NODE]))
        address = wait_for("the server", lambda: server_address(self._pods()), self._deadline, INTERVAL)
        for path, node in self._nodes.items():
            self._kube.create(client(self._settings, path, node, address))
        self._wait_until_reached("the clients to reach the server while nothing forbids it", self._deadline)

    def _require_time_for_the_policy(self) -> None:
        """Refuse to judge a policy that would get less time than it may need: it would look like one that is not enforced."""
        left, needed = self._deadline.left(0), self._policy_timeout
        if left < needed:
            raise TenancyError(
                f"timeout: of {self._deadline.seconds:.0f} s only {left:.0f} s are left when the pods run, and a policy gets up to "
                f"{needed:.0f} s to take effect. Raise it."
            )

    def _policy_deadline(self) -> Deadline:
        seconds = min(self._policy_timeout, self._deadline.left())
        return Deadline(seconds, self._deadline.clock, self._deadline.sleep)

    def _wait_until_reached(self, what: str, deadline: Deadline) -> None:
        def observe() -> tuple[bool | None, str]:
            reached, seen = reaching(self._pods(), self._nodes)
            return (True, "") if reached == set(self._nodes) else (None, seen)

        wait_for(what, observe, deadline, INTERVAL)

    def _cut_off(self) -> dict[str, float]:
        """Return after how many seconds the server was not reached any more, by path."""
        deadline = self._policy_deadline()
        cut_off: dict[str, float] = {}

        def observe() -> tuple[bool | None, str]:
            nonlocal cut_off
            reached, _seen = reaching(self._pods(), self._nodes)
            now = deadline.elapsed()
            cut_off = {path: cut_off.get(path, now) for path in self._nodes if path not in reached}
            return (None, "") if reached else (True, "")

        # That it takes no effect is a result.
        with contextlib.suppress(WaitTimeout):
            wait_for("the policy to take effect", observe, deadline, INTERVAL)
        return cut_off

    def _pods(self) -> list[JsonObject]:
        return self._kube.list("v1", "Pod", self._settings.namespace)


# --- what is made ----------------------------------------------------------------------------------------------------


def places(nodes: t.Iterable[JsonObject], tolerations: t.Sequence[JsonObject] = ()) -> dict[str, str]:
    """Return the node of each path's client; the server is on that of the first.

    :arg tolerations: those of the probe's pods.
    :raises TenancyError: where no node takes them.
    """
    names = sorted(node["metadata"]["name"] for node in nodes if _takes_pods(node, tolerations))
    if not names:
        raise TenancyError(
            "No node is ready and takes the probe's pods, so network policies cannot be probed. "
            "Where all nodes are tainted, name the taints in tolerations."
        )
    return dict(zip(PATHS, names))


def _takes_pods(node: JsonObject, tolerations: t.Sequence[JsonObject]) -> bool:
    return is_ready(node) and not node.get("spec", {}).get("unschedulable") and not untolerated(node, tolerations)


def server(settings: Settings, node: str) -> JsonObject:
    """Return the pod that serves a page."""
    spec = page_spec(settings.image, NAME, PORT) | {"affinity": on_node(node)}
    return pod(settings, spec, name=SERVER, labels=_SERVER_LABELS)


def client(settings: Settings, path: str, node: str, address: str) -> JsonObject:
    """Return a pod that is ready while it reaches the server; after three failures in a row it is not.

    :arg address: the server's.
    """
    host = f"[{address}]" if ":" in address else address
    ask = ["wget", "-q", "-T", "2", "-O", "/dev/null", f"http://{host}:{PORT}/"]
    ready = {"exec": {"command": ask}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 3}
    spec = pod_spec(settings.image, "trap 'exit 0' TERM; sleep 3600 & wait", readinessProbe=ready)
    return pod(settings, spec | {"affinity": on_node(node)}, name=client_name(path), labels=_CLIENT_LABELS)


def client_name(path: str) -> str:
    """Return the name of a path's client."""
    return f"client-{path.replace('_', '-')}"


def policy(namespace: str) -> JsonObject:
    """Return the policy by which no pod may reach the server."""
    api_version, kind = POLICY
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": _SERVER_LABELS}, "policyTypes": ["Ingress"], "ingress": []},
    }


# --- what is seen ----------------------------------------------------------------------------------------------------


def server_address(pods: list[JsonObject]) -> tuple[str | None, str]:
    """Return the address at which the server answers, or None and its state."""
    for one in pods:
        if one["metadata"]["name"] == SERVER:
            return (one["status"]["podIP"], "") if is_ready(one) else (None, pod_state(one))
    return None, "the server's pod does not exist"


def reaching(pods: list[JsonObject], paths: t.Iterable[str]) -> tuple[set[str], str]:
    """Return the paths on which the server is reached, and the state of the others' clients."""
    live = {pod["metadata"]["name"]: pod for pod in pods}
    reached = {path for path in paths if is_ready(live.get(client_name(path), {}))}
    missed = [client_name(path) for path in paths if path not in reached]
    return reached, "; ".join(pod_state(live[name]) if name in live else f"pod {name} does not exist" for name in missed)


def results(nodes: dict[str, str], cut_off: dict[str, float], bound: float) -> list[JsonObject]:
    """Return the record of each path.

    :arg nodes: as ``places`` chose them.
    :arg cut_off: after how many seconds the policy took effect on a path.
    :arg bound: seconds it was given.
    """
    there = nodes[SAME_NODE]
    records = []
    for path, here in nodes.items():
        way = f"from {here} to {there}"
        if path in cut_off:
            records.append(record(path, "enforced", f"the server was not reached any more {way}", cut_off[path]))
        else:
            records.append(record(path, "unenforced", f"the server was still reached {way}, against the policy", bound))
    return records
