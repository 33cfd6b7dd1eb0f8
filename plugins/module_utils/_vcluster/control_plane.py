# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The control plane of one virtual cluster, read from the host cluster, and whether clients can use it."""

from __future__ import annotations

import typing as t

from .._common.errors import ApiError, TenancyError, WaitTimeout
from .._common.names import KUBECONFIG_SECRET
from .._common.ownership import MARKER_LABEL
from .._common.values import JsonObject, utc_now
from .._kubeconfig import values as kubeconfig
from .facts import CONTROL_PLANE, DNS_PATH, READY_PATH
from .status import failure_lines, judge

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.wait import Deadline

# One authenticated GET by a kubeconfig; raises TenancyError, with ``permanent`` where no waiting helps.
Ask = t.Callable[[JsonObject, str], JsonObject]

# Seconds for which a control plane that was just started may refuse clients: it renews its certificate for the node's address every
# two seconds (pkg/server/cert/syncer.go), and its kubeconfig Secret is the former one until it writes the new one.
SETTLING = 15.0


class ControlPlane:
    """What the host cluster shows of one virtual cluster's control plane."""

    def __init__(self, kube: Kube, name: str, namespace: str) -> None:
        self.kube = kube
        self.name = name
        self.namespace = namespace

    def workload(self) -> JsonObject | None:
        """Read its StatefulSet, or its Deployment when it keeps no data."""
        kinds = ("StatefulSet", "Deployment")
        return next(filter(None, (self.kube.get("apps/v1", kind, self.name, self.namespace) for kind in kinds)), None)

    def pods(self) -> list[JsonObject]:
        """List its pods."""
        return self.kube.list("v1", "Pod", self.namespace, f"{CONTROL_PLANE},release={self.name}")

    def synced(self, api_version: str, kind: str) -> list[JsonObject]:
        """List the objects of a kind that it wrote into its namespace on the host."""
        return self.kube.list(api_version, kind, self.namespace, f"{MARKER_LABEL}={self.name}")

    def service(self) -> JsonObject | None:
        """Read its Service."""
        return self.kube.get("v1", "Service", self.name, self.namespace)

    def ingress(self) -> JsonObject | None:
        """Read the Ingress of its name."""
        return self.kube.get("networking.k8s.io/v1", "Ingress", self.name, self.namespace)

    def secret(self) -> JsonObject | None:
        """Read the Secret with its kubeconfig."""
        return self.kube.get("v1", "Secret", f"{KUBECONFIG_SECRET}{self.name}", self.namespace)

    def log(self, pod: str, container: str) -> str:
        """Return what a crashing container's log says about the failure."""
        for previous in (True, False):
            try:
                log = self.kube.pods.logs(pod, self.namespace, container, lines=200, previous=previous)
            except TenancyError as exc:
                # The crash is what matters; its log may be gone with the container.
                return f"(its log cannot be read: {exc.message})"
            if lines := failure_lines(log):
                return lines
        return "(its log is empty)"


def expired(secret: JsonObject | None) -> str | None:
    """Return when the certificate in a virtual cluster's Secret ended; None where it has not, or is not known."""
    return kubeconfig.expired(secret or {}, utc_now())


class Readiness:
    """The probe for whether clients can use a virtual cluster.

    :arg dns: whether it has a CoreDNS of its own, which has to answer, too.
    :arg proxy_url: address of the HTTP proxy on the way to it; None without one.
    :arg settling: seconds for which an error that no waiting mends has to last before it is believed.
    """

    def __init__(
        self, plane: ControlPlane, ask: Ask, deadline: Deadline, dns: bool, proxy_url: str | None, settling: float
    ) -> None:
        self.plane = plane
        self.ask = ask
        self.dns = dns
        self.proxy_url = proxy_url
        self.deadline = deadline
        self.settling = settling
        self.refused_since: float | None = None

    def probe(self) -> tuple[JsonObject | None, str]:
        """Observe once, for ``wait_for``.

        :returns: ``server`` and ``kubernetes_version``, neither where nothing outside of the host cluster reaches its Service.
        :raises TenancyError: when it will not become usable.
        """
        workload, pods = self.plane.workload(), self.plane.pods()
        verdict = judge(workload, pods)
        if verdict.crashed:
            raise WaitTimeout(
                f"The control plane of virtual cluster {self.plane.name} crashes again and again. "
                f"Its log ends with: {self.plane.log(*verdict.crashed)}",
                last_seen=verdict.seen,
            )
        if not verdict.ready:
            return None, verdict.seen
        secret = self.plane.secret()
        if secret is None:
            return None, f"its kubeconfig Secret vc-{self.plane.name} does not exist yet"
        if ended := expired(secret):
            return (
                None,
                f"the certificate in its Secret vc-{self.plane.name} expired {ended}; vCluster before 0.34 may not renew it",
            )
        service = self.plane.service()
        server, why = kubeconfig.server_address(service, pods)
        if server is None:
            unreachable = service is not None and service["spec"].get("type") not in ("NodePort", "LoadBalancer")
            return ({}, "") if unreachable else (None, why)
        return self._answers(kubeconfig.kubeconfig(secret, self.plane.name, server, self.proxy_url), server)

    def _has_lasted(self) -> bool:
        now = self.deadline.clock()
        self.refused_since = now if self.refused_since is None else self.refused_since
        return now - self.refused_since >= self.settling

    def _answers(self, config: JsonObject, server: str) -> tuple[JsonObject | None, str]:
        try:
            version = self.ask(config, "/version")["gitVersion"]
            self.ask(config, READY_PATH)
            dns = self.ask(config, DNS_PATH) if self.dns else None
        except TenancyError as exc:
            if isinstance(exc, ApiError) and exc.permanent and self._has_lasted():
                raise
            return None, exc.message
        if dns and not dns.get("status", {}).get("availableReplicas"):
            return None, "its cluster DNS, Deployment coredns, has no pod that answers yet"
        return {"server": server, "kubernetes_version": version}, ""
