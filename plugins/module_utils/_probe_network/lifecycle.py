# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of network policies."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError, WaitTimeout
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from .._probe.lifecycle import own_namespace
from .._probe.plan import IMAGE
from .plan import NAME, PATHS, POLICY, POLICY_TIMEOUT, TIMEOUT, Settings, client, places, policy, server
from .status import reaching, results, server_address

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube


def probe(
    kube: Kube,
    namespace: str = NAME,
    image: str = IMAGE,
    deadline: Deadline | None = None,
    policy_timeout: float = POLICY_TIMEOUT,
    tolerations: t.Iterable[JsonObject] = (),
) -> tuple[bool, list[JsonObject]]:
    """Return whether network policies are enforced on all paths, and the record of each path.

    :arg namespace: made for the probe, and removed.
    :arg deadline: of the whole probe, by default TIMEOUT seconds.
    :arg policy_timeout: seconds that a policy gets to take effect, and again to lose it.
    :arg tolerations: those of the pods.
    :raises TenancyError: when it cannot be found out.
    """
    settings = Settings(namespace, image, policy_timeout, tuple(tolerations))
    records = _Probe(kube, settings, deadline or Deadline(TIMEOUT)).run()
    return all(record["verdict"] == "enforced" for record in records), records


class _Probe:
    def __init__(self, kube: Kube, settings: Settings, deadline: Deadline) -> None:
        self._kube = kube
        self._settings = settings
        self._namespace = settings.namespace
        self._deadline = deadline
        self._nodes = places(kube.list("v1", "Node"), settings.tolerations)

    def run(self) -> list[JsonObject]:
        with own_namespace(self._kube, self._namespace, self._deadline):
            self._start()
            self._require_time_for_the_policy()
            self._kube.create(policy(self._namespace))
            cut_off = self._cut_off()
            self._kube.delete(*POLICY, NAME, self._namespace)
            # Had the server died meanwhile, it would look like a policy that is enforced.
            self._wait_until_reached("the clients to reach the server again without the policy", self._policy_deadline())
            return results(self._nodes, cut_off, self._settings.policy_timeout)

    def _start(self) -> None:
        self._kube.create(server(self._settings, self._nodes[PATHS[0]]))
        address = wait_for("the server", lambda: server_address(self._pods()), self._deadline, interval=0.5)
        for path, node in self._nodes.items():
            self._kube.create(client(self._settings, path, node, address))
        self._wait_until_reached("the clients to reach the server while nothing forbids it", self._deadline)

    def _require_time_for_the_policy(self) -> None:
        """Refuse to judge a policy that would get less time than it may need: it would look like one that is not enforced."""
        left, needed = self._deadline.left(0), self._settings.policy_timeout
        if left < needed:
            raise TenancyError(
                f"timeout: of {self._deadline.seconds:.0f} s only {left:.0f} s are left when the pods run, and a policy gets up to "
                f"{needed:.0f} s to take effect. Raise it."
            )

    def _policy_deadline(self) -> Deadline:
        seconds = min(self._settings.policy_timeout, self._deadline.left())
        return Deadline(seconds, self._deadline.clock, self._deadline.sleep)

    def _wait_until_reached(self, what: str, deadline: Deadline) -> None:
        def observe() -> tuple[bool | None, str]:
            reached, seen = reaching(self._pods(), self._nodes)
            return (True, "") if reached == set(self._nodes) else (None, seen)

        wait_for(what, observe, deadline, interval=0.5)

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

        try:
            wait_for("the policy to take effect", observe, deadline, interval=0.5)
        except WaitTimeout:
            # That it takes none is a result.
            pass
        return cut_off

    def _pods(self) -> list[JsonObject]:
        return self._kube.list("v1", "Pod", self._namespace)
