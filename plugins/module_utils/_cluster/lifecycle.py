# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what tells of a host cluster what it is and has, and what its kubeconfig lets do there."""

from __future__ import annotations

import typing as t

from .._common.errors import FORBIDDEN, ApiError
from .._common.values import JsonObject
from .._device_plugin.facts import CLUSTER_POLICY
from .._nodes.facts import DEVICE_CLASS, RESOURCE_SLICE
from .._vcluster.facts import RUNTIME_CLASS
from . import facts
from .status import Seen

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

_HOOKS = "admissionregistration.k8s.io/v1"
_BETA = "admissionregistration.k8s.io/v1beta1"


def read(kube: Kube) -> Seen:
    """Read a cluster, by a list of each kind."""
    unread: list[str] = []

    def allowed(listed: t.Callable[[], list[JsonObject]]) -> list[JsonObject]:
        # What is only a note needs no further rights: a user who may look, and not more, can run drift.
        try:
            return listed()
        except ApiError as exc:
            if exc.status != FORBIDDEN:
                raise
            unread.append(exc.message)
            return []

    return Seen(
        version=kube.version(),
        nodes=kube.list("v1", "Node"),
        runtime_classes=kube.list(*RUNTIME_CLASS),
        storage_classes=kube.list("storage.k8s.io/v1", "StorageClass"),
        ingress_classes=kube.list("networking.k8s.io/v1", "IngressClass"),
        daemon_sets=kube.list("apps/v1", "DaemonSet"),
        cluster_policies=kube.list(*CLUSTER_POLICY),
        webhooks=_all(kube, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        policies=allowed(lambda: _all(kube, "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")),
        policy_bindings=allowed(lambda: _all(kube, "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicyBinding")),
        priority_classes=allowed(lambda: kube.list("scheduling.k8s.io/v1", "PriorityClass")),
        device_classes=allowed(lambda: kube.list(*DEVICE_CLASS)),
        resource_slices=allowed(lambda: kube.list(*RESOURCE_SLICE)),
        security_contexts=kube.served(*facts.SECURITY_CONTEXTS),
        unread=unread,
    )


def _all(kube: Kube, *kinds: str) -> list[JsonObject]:
    # Mutating policies are a beta in many clusters, which an administrator may have switched on.
    return [item for kind in kinds for item in kube.list(_HOOKS, kind) or kube.list(_BETA, kind)]


def lacking(kube: Kube, namespaces: t.Mapping[str, str], made: t.Collection[str]) -> dict[str, list[str]]:
    """Return what of facts.RIGHTS the kubeconfig's user may not do: verbs by resources, in the order of these.

    :arg namespaces: by ``within`` of rights; none of them need exist.
    :arg made: what is to be made beside tenants, as ``only`` of rights names it.
    """
    if kube.may("*", "*", "*"):
        return {}
    found: dict[str, list[str]] = {}
    for right in facts.RIGHTS:
        if right.only and right.only not in made:
            continue
        for resource in right.resources:
            refused = [
                verb for verb in right.verbs if not kube.may(verb, right.group, resource, namespaces.get(right.within, ""))
            ]
            name = f"{resource}.{right.group}" if right.group else resource
            if refused:
                found[name] = sorted({*found.get(name, []), *refused})
    return found
