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
from .._common.errors import TenancyError, check_all, refusal
from .._common.kubeconfig import entry
from .._common.names import namespace_of
from .._common.run import Result
from .._common.values import JsonObject
from .._kubeconfig import plan, values
from .._vcluster import validation
from .._vcluster.control_plane import Ask, ControlPlane
from .account import SHORTEST_TOKEN, Account
from .administrator import Administrator

if t.TYPE_CHECKING:
    from .._adapters.kubeconfig_file import KubeconfigFile
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


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
        self.plane = ControlPlane(run.kube, self.name, self.namespace)
        self.administrator = Administrator(run, ask, self.plane, self.context)

    # --- present ---

    def present(self) -> Result:
        """Have the entries in the file, once the API server answered; without a file, return them."""
        existing = self._checked()
        secret = self.plane.secret()
        base = {"context": self.context} | ({"path": self.run.params["path"]} if self.file else {})
        if self.run.check_mode and self.administrator.problem(secret):
            # An earlier task would have solved it.
            return base | self._predicted(existing)
        # To ask for a service account's token in check mode, too, the API server has to answer.
        verify = self.run.params["verify"] and not self.run.check_mode
        config = self.administrator.kubeconfig(secret, verify=bool(self.account) or verify)
        if self.account:
            token = entry(existing, "users", self.context).get("token")
            account = self._account(self.account, config)
            config = account.kubeconfig(config, str(token) if isinstance(token, str) else "")
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
            raise refusal("no-folder", f"path: there is no folder {self.file.folder}.")
        return existing

    def _check_expiration(self) -> None:
        if self.account and self.account["expiration"] < SHORTEST_TOKEN:
            raise refusal(
                "out-of-range", f"service_account.expiration: the API server grants no less than {SHORTEST_TOKEN} seconds."
            )

    def _parsed(self) -> JsonObject | None:
        content = self.file.read() if self.file else None
        if self.file is None or content is None:
            return None
        try:
            return plan.parse(content, self.file.path, self.context)
        except TenancyError as exc:
            raise refusal("not-a-kubeconfig", f"path: {exc.message}") from exc

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
            self.run.perform(f"remove {file.path}", why, file.remove)
        else:
            self.run.perform(f"write {file.path}", why, functools.partial(file.write, content))

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
        # First, because once the file is gone, nothing shows that a token is still valid.
        if self.account:
            self._revoke(self.account)
        if self.file is None:
            return self.run.result(context=self.context)
        left = plan.without(existing, self.context) if existing else None
        changed = plan.holds(existing, self.context)
        if changed:
            self._replace_file(verbatim.dump(left).encode() if left else None, "absent is wanted")
        before, after = self._summary(existing), self._summary(left if changed else existing)
        return self._result(before, after, changed) | {"context": self.context, "path": self.run.params["path"]}

    def _revoke(self, options: JsonObject) -> None:
        secret = self.plane.secret()
        # With the virtual cluster, the service account is gone anyway.
        if secret:
            self._account(options, self.administrator.kubeconfig(secret, verify=True)).ensure(False)

    def _account(self, options: JsonObject, administrator: JsonObject) -> Account:
        """Return the service account, in the virtual cluster that the administrator's kubeconfig leads to."""
        # The context is named lest one of the environment's is taken.
        virtual = self.connect(kubeconfig=administrator, context=self.context)
        return Account(self.run, self.ask, self.name, virtual, options)
