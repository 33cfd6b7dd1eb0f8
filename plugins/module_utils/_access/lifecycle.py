# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The life of one virtual cluster's entries in a kubeconfig file, and of the service account that they are for."""

from __future__ import annotations

import functools
import typing as t

from .._common import verbatim
from .._common.errors import ApiError, TenancyError, check_all
from .._common.kubeconfig import entry
from .._common.names import namespace_of
from .._common.ownership import is_owned
from .._common.run import Result
from .._common.values import JsonObject, utc_now
from .._common.wait import wait_for
from .._kubeconfig import plan, values
from .._vcluster import validation
from .._vcluster.control_plane import Ask, ControlPlane, expired
from .._vcluster.facts import READY_PATH

if t.TYPE_CHECKING:
    from .._adapters.kubeconfig_file import KubeconfigFile
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


# Path that everyone may read whom the API server knows, and nobody else.
KNOWN_PATH = "/api"
# Seconds for which the API server grants a token at least.
SHORTEST_TOKEN = 600


class Access:
    """The access to one virtual cluster by a kubeconfig file.

    :arg run: its options are those of module vcluster_kubeconfig.
    :arg connect: makes the adapter to the virtual cluster's API from ``kubeconfig=`` and ``context=``.
    :arg file: the kubeconfig file; None where nothing is written.
    """

    def __init__(self, run: Run, ask: Ask, connect: t.Callable[..., Kube], file: KubeconfigFile | None) -> None:
        self.run = run
        self.ask = ask
        self.connect = connect
        self.file = file
        self.name: str = run.params["name"]
        self.namespace = namespace_of(self.name, run.params["namespace"])
        self.context: str = run.params["context_name"] or self.name
        self.account: JsonObject | None = run.params["service_account"]

    # --- present ---

    def present(self) -> Result:
        """Have the entries in the file, once the API server answered; without a file, return them."""
        existing = self._checked()
        plane = ControlPlane(self.run.kube, self.name, self.namespace)
        secret = plane.secret()
        base = {"context": self.context} | ({"path": self.run.params["path"]} if self.file else {})
        if self.run.check_mode and self._problem(secret):
            # An earlier task would have solved it.
            return base | self._predicted(existing)
        config = self._administrator(plane, secret, bool(self.account) or self.run.params["verify"])
        if self.account:
            token = entry(existing, "users", self.context).get("token")
            config = self._for_account(config, str(token) if isinstance(token, str) else "")
        user = config["users"][0]["user"]
        base |= {"server": config["clusters"][0]["cluster"]["server"], "expires": values.iso(values.expiry(user))}
        if self.file is None:
            return self.run.result(**base, **({} if user.get("token") == "" else {"kubeconfig": config}))
        return self._written(self.file, existing, config) | base

    def _checked(self) -> JsonObject | None:
        """Return the kubeconfig that the file holds, once nothing is wrong with the options."""
        params = self.run.params
        check_all(
            lambda: validation.check_name(self.name),
            lambda: validation.check_namespace(params["namespace"]),
            lambda: validation.check_url("server", params["server"], ("https",)),
            lambda: validation.check_proxy("proxy_url", params["proxy_url"]),
            self._check_expiration,
        )
        existing = self._parsed()
        # In check mode an earlier task would have made its folder.
        if self.file and not self.run.check_mode and not self.file.has_folder:
            raise TenancyError(f"path: there is no folder {self.file.folder}.")
        return existing

    def _check_expiration(self) -> None:
        if self.account and self.account["expiration"] < SHORTEST_TOKEN:
            raise TenancyError(f"service_account.expiration: the API server grants no less than {SHORTEST_TOKEN} seconds.")

    def _parsed(self) -> JsonObject | None:
        content = self.file.read() if self.file else None
        if self.file is None or content is None:
            return None
        try:
            return plan.parse(content, self.file.path, self.context)
        except TenancyError as exc:
            raise TenancyError(f"path: {exc.message}") from exc

    def _predicted(self, existing: JsonObject | None) -> Result:
        if self.file:
            self._replace_file(b"", "the virtual cluster gets other credentials")
        diff = {"before": self._summary(existing), "after": {"context": self.context, "credentials": "new"}}
        return self.run.result(changed=bool(self.file or self.account), diff=diff)

    def _written(self, file: KubeconfigFile, existing: JsonObject | None, config: JsonObject) -> Result:
        """Write the entries into the file, where they differ or the file's mode is not 0600."""
        merged = plan.merge(existing, config, self.run.params["make_current"])
        before, after = self._summary(existing), self._summary(merged)
        if not plan.same_credentials(existing, merged, self.context):
            after["credentials"] = "changed" if plan.holds(existing, self.context) else "new"
        if file.mode not in (None, "0600"):
            before["mode"], after["mode"] = file.mode, "0600"
        differs = merged != existing
        if differs or file.mode != "0600":
            why = f"its mode is {file.mode}"
            if differs:
                why = "it does not exist" if file.content is None else "its entries differ"
            # Only the mode is mended where the content is right, however others have formatted it.
            self._replace_file(verbatim.dump(merged).encode() if differs else file.content, why)
        return self._result(before, after, differs or file.mode != "0600")

    def _replace_file(self, content: bytes | None, why: str) -> None:
        """Take the step that gives the file this content; None removes it."""
        file = t.cast("KubeconfigFile", self.file)
        if content is None:
            self.run.take(f"remove {file.path}", why, file.remove)
        else:
            self.run.take(f"write {file.path}", why, functools.partial(file.write, content))

    def _result(self, before: JsonObject, after: JsonObject, changed: bool) -> Result:
        """Return the result of changes in the virtual cluster together with those of the file."""
        write = self.file.last_write if self.file else None
        for what in [key for key in {**before, **after} if before.get(key) != after.get(key)]:
            self.run.change(what, before.get(what), after.get(what), write)
        result = self.run.result()
        diff = {"before": result["diff"]["before"] | before, "after": result["diff"]["after"] | after}
        return result | {"changed": changed or result["changed"], "diff": result["diff"] | diff}

    def _summary(self, config: JsonObject | None) -> JsonObject:
        return {"path": self.file.path} | plan.summary(config, self.context) if self.file and config else {}

    # --- absent ---

    def absent(self) -> Result:
        """Take the entries out of the file, and remove the service account, which ends its tokens."""
        existing = self._parsed()
        # First, because without its file nobody would know of a token that is still valid.
        if self.account:
            self._revoke()
        if self.file is None:
            return self.run.result(context=self.context)
        left = plan.without(existing, self.context) if existing else None
        changed = plan.holds(existing, self.context)
        if changed:
            self._replace_file(verbatim.dump(left).encode() if left else None, "absent is wanted")
        before, after = self._summary(existing), self._summary(left if changed else existing)
        return self._result(before, after, changed) | {"context": self.context, "path": self.run.params["path"]}

    def _revoke(self) -> None:
        plane = ControlPlane(self.run.kube, self.name, self.namespace)
        secret = plane.secret()
        # With the virtual cluster, the service account is gone anyway.
        if secret:
            self._ensure_account(self._enter(self._administrator(plane, secret, verify=True)), False)

    # --- the administrator's kubeconfig ---

    def _problem(self, secret: JsonObject | None) -> str | None:
        """Return why nobody can get in, as far as the host cluster knows."""
        if secret is None:
            return f"has no kubeconfig: its Secret vc-{self.name} does not exist."
        if ended := expired(secret):
            return (
                f"lets nobody in: the client certificate in its Secret vc-{self.name} expired {ended}. "
                "The module vcluster with state=present has it renewed."
            )
        return None

    def _administrator(self, plane: ControlPlane, secret: JsonObject | None, verify: bool) -> JsonObject:
        """Return the administrator's kubeconfig.

        :arg verify: whether the API server has to answer first.
        """
        problem = self._problem(secret)
        if problem or secret is None:
            raise TenancyError(f"Virtual cluster {self.name} in namespace {self.namespace} {problem}")
        server = self.run.params["server"] or self._server(plane)
        config = values.kubeconfig(secret, self.context, server, self._proxy_url())
        if verify and (self.account or not self.run.check_mode):
            self._wait(config, READY_PATH)
        return config

    def _proxy_url(self) -> str | None:
        """Return the address of the proxy: as asked for, or that on the way to the host cluster. An empty text asks for none."""
        given: str | None = self.run.params["proxy_url"]
        if given is not None:
            return given
        inherited = self.run.kube.proxy_url
        validation.check_proxy("proxy_url: as the kubeconfig of the host cluster names it", inherited)
        return inherited

    def _server(self, plane: ControlPlane) -> str:
        service = plane.service()
        hidden = service and service["spec"].get("type", "ClusterIP") == "ClusterIP"
        server, why = values.server_address(service, plane.pods(), plane.ingress() if hidden else None)
        if server is None:
            raise TenancyError(f"server: give the address of virtual cluster {self.name}; none can be derived, because {why}.")
        return server

    def _wait(self, config: JsonObject, path: str, new_token: bool = False) -> None:
        """Wait until the API server answers.

        :arg new_token: the API server may not know the token yet, so that a refusal may pass.
        """

        def answers() -> tuple[bool | None, str]:
            try:
                self.ask(config, path)
            except TenancyError as exc:
                if isinstance(exc, ApiError) and exc.permanent and not new_token:
                    raise
                return None, exc.message
            return True, ""

        wait_for(f"an answer of virtual cluster {self.name}", answers, self.run.deadline)

    # --- the service account ---

    def _for_account(self, administrator: JsonObject, old_token: str) -> JsonObject:
        """Return the service account's kubeconfig; its token is empty where check mode asks for none."""
        account = t.cast(JsonObject, self.account)
        virtual = self._enter(administrator)
        role = account["cluster_role"]
        if role and virtual.get(values.RBAC, "ClusterRole", role) is None:
            raise TenancyError(f"service_account.cluster_role: virtual cluster {self.name} has no cluster role {role}.")
        self._ensure_account(virtual, True)
        config = values.with_token(administrator, old_token)
        who = (account["name"], account["namespace"], account["expiration"])
        if values.serves(old_token, *who, utc_now()) and self._is_accepted(config):
            return config
        config = values.with_token(administrator, "" if self.run.check_mode else virtual.create_token(*who))
        if not self.run.check_mode:
            self._wait(config, KNOWN_PATH, new_token=True)
        return config

    def _is_accepted(self, config: JsonObject) -> bool:
        try:
            self.ask(config, KNOWN_PATH)
        except TenancyError:
            return False
        return True

    def _enter(self, administrator: JsonObject) -> Kube:
        # The context is named lest one of the environment's is taken.
        return self.connect(kubeconfig=administrator, context=self.context)

    def _ensure_account(self, virtual: Kube, needed: bool) -> None:
        """Have the service account with its role, or neither of them."""
        account = t.cast(JsonObject, self.account)
        objects = values.account_objects(account["name"], account["namespace"], account["cluster_role"])
        pairs = {what: (self._live(virtual, item, needed), item) for what, item in objects.items()}
        for what, (live, item) in pairs.items():
            wanted = item if needed and values.shown(item) is not None else None
            same = live and wanted and all(live.get(key) == item.get(key) for key in ("roleRef", "subjects"))
            if (live or wanted) and not same:
                self.run.change(what, values.shown(live), values.shown(wanted))
                verb = "replace" if live and wanted else "create" if wanted else "remove"
                why = "the kubeconfig is for it" if needed else "absent is wanted"
                self.run.take(f"{verb} {what}", why, functools.partial(_replace, virtual, live, wanted))

    def _live(self, virtual: Kube, item: JsonObject, needed: bool) -> JsonObject | None:
        """Read the live object; None, too, where somebody else made it and it is not needed.

        :raises TenancyError: when somebody else made it and it is needed.
        """
        metadata = item["metadata"]
        live = virtual.get(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace"))
        if live is None or is_owned(live):
            return live
        if needed:
            raise TenancyError(
                f"service_account.name: {item['kind']} {metadata['name']} in virtual cluster {self.name} "
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
