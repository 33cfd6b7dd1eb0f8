# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The service account in one virtual cluster that a kubeconfig is for: its objects there, and its token."""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import TenancyError
from .._common.ownership import is_owned
from .._common.values import JsonObject, utc_now
from .._kubeconfig import values
from .._vcluster.control_plane import Ask
from .administrator import wait_for_answer

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


# Path that every user whom the API server knows may read, and no other user.
KNOWN_PATH = "/api"
# Seconds for which the API server grants a token at least.
SHORTEST_TOKEN = 600


class Account:
    """The service account of one kubeconfig.

    :arg cluster: name of the virtual cluster, for messages.
    :arg virtual: adapter to its API.
    :arg options: of the module's option ``service_account``.
    """

    def __init__(self, run: Run, ask: Ask, cluster: str, virtual: Kube, options: JsonObject) -> None:
        self.run = run
        self.ask = ask
        self.cluster = cluster
        self.virtual = virtual
        self.options = options

    def kubeconfig(self, administrator: JsonObject, old_token: str) -> JsonObject:
        """Return the service account's kubeconfig; its token is empty where check mode asks for none.

        :arg administrator: the kubeconfig by which the virtual cluster is reached.
        :arg old_token: goes on where it still serves; empty for none.
        """
        role = self.options["cluster_role"]
        if role and self.virtual.get(values.RBAC, "ClusterRole", role) is None:
            raise TenancyError(f"service_account.cluster_role: virtual cluster {self.cluster} has no cluster role {role}.")
        self.ensure(True)
        config = values.with_token(administrator, old_token)
        who = (self.options["name"], self.options["namespace"], self.options["expiration"])
        if values.serves(old_token, *who, utc_now()) and self._is_accepted(config):
            return config
        config = values.with_token(administrator, "" if self.run.check_mode else self.virtual.create_token(*who))
        if not self.run.check_mode:
            wait_for_answer(self.run, self.ask, self.cluster, config, KNOWN_PATH, new_token=True)
        return config

    def _is_accepted(self, config: JsonObject) -> bool:
        try:
            self.ask(config, KNOWN_PATH)
        except TenancyError:
            return False
        return True

    def ensure(self, needed: bool) -> None:
        """Create the service account with its role, or remove both where they are not needed."""
        objects = values.account_objects(self.options["name"], self.options["namespace"], self.options["cluster_role"])
        pairs = {what: (self._live(item, needed), item) for what, item in objects.items()}
        for what, (live, item) in pairs.items():
            wanted = item if needed and values.shown(item) is not None else None
            same = live and wanted and all(live.get(key) == item.get(key) for key in ("roleRef", "subjects"))
            if (live or wanted) and not same:
                self.run.change(what, values.shown(live), values.shown(wanted))
                verb = "replace" if live and wanted else "create" if wanted else "remove"
                why = "the kubeconfig is for it" if needed else "absent is wanted"
                self.run.perform(f"{verb} {what}", why, functools.partial(_replace, self.virtual, live, wanted))

    def _live(self, item: JsonObject, needed: bool) -> JsonObject | None:
        """Read the live object; None, too, where another client made it and it is not needed.

        :raises TenancyError: when another client made it and it is needed.
        """
        metadata = item["metadata"]
        live = self.virtual.get(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace"))
        if live is None or is_owned(live):
            return live
        if needed:
            raise TenancyError(
                f"service_account.name: {item['kind']} {metadata['name']} in virtual cluster {self.cluster} "
                "was not made by this collection; it stays untouched."
            )
        return None


def _replace(virtual: Kube, live: JsonObject | None, wanted: JsonObject | None) -> None:
    """Remove the live object, if any, and create the wanted one, if any: what a binding binds to cannot be changed."""
    if live:
        metadata = live["metadata"]
        virtual.delete(live["apiVersion"], live["kind"], metadata["name"], metadata.get("namespace"))
    if wanted:
        virtual.create(wanted)
