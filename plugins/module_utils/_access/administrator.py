# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The administrator's kubeconfig of one virtual cluster: whether anybody can get in by it, by which address, and whether it answers."""

from __future__ import annotations

import typing as t

from .._common.errors import ApiError, TenancyError
from .._common.values import JsonObject
from .._common.wait import wait_for
from .._kubeconfig import values
from .._vcluster import validation
from .._vcluster.control_plane import Ask, ControlPlane, expired
from .._vcluster.facts import READY_PATH

if t.TYPE_CHECKING:
    from .._common.run import Run


class Administrator:
    """The administrator of one virtual cluster.

    :arg run: its options are those of module vcluster_kubeconfig.
    :arg context: name of the kubeconfig's context.
    """

    def __init__(self, run: Run, ask: Ask, plane: ControlPlane, context: str) -> None:
        self.run = run
        self.ask = ask
        self.plane = plane
        self.context = context

    def problem(self, secret: JsonObject | None) -> str | None:
        """Return why no user can log in, as far as the host cluster knows."""
        if secret is None:
            return f"has no kubeconfig: its Secret vc-{self.plane.name} does not exist."
        if ended := expired(secret):
            return (
                f"lets no user in: the client certificate in its Secret vc-{self.plane.name} expired {ended}. "
                "The module vcluster with state=present has it renewed."
            )
        return None

    def kubeconfig(self, secret: JsonObject | None, verify: bool) -> JsonObject:
        """Return the kubeconfig.

        :arg secret: the virtual cluster's, with its credentials.
        :arg verify: whether the API server has to answer first.
        """
        problem = self.problem(secret)
        if problem or secret is None:
            raise TenancyError(f"Virtual cluster {self.plane.name} in namespace {self.plane.namespace} {problem}")
        server = self.run.params["server"] or self._server()
        config = values.kubeconfig(secret, self.context, server, self._proxy_url())
        if verify:
            wait_for_answer(self.run, self.ask, self.plane.name, config, READY_PATH)
        return config

    def _proxy_url(self) -> str | None:
        """Return the address of the proxy: as asked for, or that on the way to the host cluster. An empty text asks for none."""
        given: str | None = self.run.params["proxy_url"]
        if given is not None:
            return given
        inherited = self.run.kube.proxy_url
        validation.check_proxy("proxy_url: as the kubeconfig of the host cluster names it", inherited)
        return inherited

    def _server(self) -> str:
        service = self.plane.service()
        hidden = service and service["spec"].get("type", "ClusterIP") == "ClusterIP"
        server, why = values.server_address(service, self.plane.pods(), self.plane.ingress() if hidden else None)
        if server is None:
            raise TenancyError(
                f"server: give the address of virtual cluster {self.plane.name}; none can be derived, because {why}."
            )
        return server


def wait_for_answer(run: Run, ask: Ask, name: str, config: JsonObject, path: str, new_token: bool = False) -> None:
    """Wait until the API server of a virtual cluster answers.

    :arg new_token: the API server may not know the token yet, so that a refusal may pass.
    """

    def answers() -> tuple[bool | None, str]:
        try:
            ask(config, path)
        except TenancyError as exc:
            if isinstance(exc, ApiError) and exc.permanent and not new_token:
                raise
            return None, exc.message
        return True, ""

    wait_for(f"an answer of virtual cluster {name}", answers, run.deadline)
