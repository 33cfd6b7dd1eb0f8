# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Whether the host cluster's network enforces the policies of one virtual cluster, and the policy of its control plane."""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import TenancyError
from .._common.ownership import annotations_of, last_write
from .._common.values import JsonObject
from .facts import CILIUM, CONTROL_PLANE_POLICY, ENFORCED, NETWORK_ANNOTATION, NETWORK_POLICY, UNENFORCED
from .values import Wanted, has_network_policies, narrowed_egress, pod_networks

if t.TYPE_CHECKING:
    from .._common.run import Run

# Probes, in a namespace of this name, whether the network enforces policies; returns that, and the record of each path.
NetworkProbe = t.Callable[[str], tuple[bool, list[JsonObject]]]


class Network:
    """The network policies of one virtual cluster.

    :arg name: of the virtual cluster; ``namespace``, where it is on the host cluster.
    """

    def __init__(self, run: Run, name: str, namespace: str, probe: NetworkProbe) -> None:
        self.run = run
        self.kube = run.kube
        self.name = name
        self.namespace = namespace
        self.probe = probe

    def judge(self, asked: Wanted, namespace: JsonObject | None, changed: bool) -> str | None:
        """Find out whether the network enforces the policies that the values make.

        :arg namespace: as it was read, if it can be used; ``changed``, whether the release is about to change.
        :returns: ENFORCED, UNENFORCED, or None where there are no policies, or where that is not known.
        :raises TenancyError: when it does not, and that is not accepted.
        """
        if not has_network_policies(asked.values):
            return None
        noted = annotations_of(namespace).get(NETWORK_ANNOTATION)
        accepted: bool = self.run.params["accept_unenforced"]
        known = asked.recorded or (not changed and (noted == ENFORCED or (noted == UNENFORCED and accepted)))
        network = noted if self.run.check_mode or known else self._probed(asked.trust, accepted)
        if network == UNENFORCED:
            self.run.warn(
                f"{self.name}: The cluster's network does not enforce network policies, which was accepted: pods of others reach "
                "the tenant's."
            )
        return network

    def _probed(self, trust: str | None, accepted: bool) -> str:
        # Several tenants are made at once, each with a probe of its own.
        enforced, results = self.probe(self.name)
        if not enforced and not accepted:
            seen = "; ".join(result["reason"] for result in results if result["verdict"] != ENFORCED)
            raise TenancyError(
                f"trust: {trust} rests on network policies, and the cluster's network does not enforce them: {seen}. Have a "
                "network plugin that does, or take the tenant as it is: by kubegpu_accept_unenforced_network_policies in an inventory, by "
                "accept_unenforced of this module.",
                results=results,
            )
        return ENFORCED if enforced else UNENFORCED

    def narrow(self, applied: bool) -> None:
        """Keep the control plane from pods of others, which the chart's policy lets it reach at the ports of API servers.

        Not where that would keep it from the host cluster's API server, too.

        :arg applied: whether the chart was just applied, which makes the policy what the chart has.
        """
        name = CONTROL_PLANE_POLICY.format(self.name)
        live = self.kube.get(*NETWORK_POLICY, name, self.namespace)
        if live is None or self.kube.served(*CILIUM):
            return
        before = live["spec"].get("egress") or []
        after = narrowed_egress(before, pod_networks(self.kube.list("v1", "Node")))
        if before == after:
            return
        if not applied:
            write = last_write(live, ("spec", "egress"))
            self.run.change(f"NetworkPolicy {name}", "reaches pods of others", "does not", write)
        patch = functools.partial(self.kube.patch, *NETWORK_POLICY, name, {"spec": {"egress": after}}, self.namespace)
        self.run.perform(f"narrow NetworkPolicy {name}", "the chart's reaches pods of others", patch)
