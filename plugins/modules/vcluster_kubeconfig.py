#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.vcluster_kubeconfig."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vcluster_kubeconfig
short_description: Kubeconfig file of a virtual cluster
version_added: 0.1.0
description:
  - Writes one cluster, user and context into a kubeconfig file, with which clients reach a virtual cluster directly, without a
    port-forward, or returns them.
  - The file is readable by its owner only, is replaced atomically, and is written only after the API server answered an
    authenticated request.
  - What else is in the file stays, its current context included. No other kubeconfig is touched.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) writes cluster, user and context into the file.
      - V(absent) takes them out again, and removes a file with nothing else in it. With O(service_account), that is removed first,
        which ends its tokens.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name of the virtual cluster.
    type: str
    required: true
  namespace:
    description:
      - Its namespace on the host cluster. It defaults to V(tenant-NAME).
    type: str
  path:
    description:
      - The file. Its folder has to exist. A file that is no kubeconfig, and a symbolic link, are refused.
      - Without it nothing is written, and RV(kubeconfig) is returned.
    type: path
  server:
    description:
      - Address of the API server as clients reach it. Its host has to be in the serving certificate.
      - It defaults to the node port on the node the control plane runs on, to the address of the load balancer or, with a Service
        of type C(ClusterIP), to the host of the Ingress with the name of the virtual cluster. That Ingress has to pass TLS through.
    type: str
  proxy_url:
    description:
      - Proxy clients use to get there.
    type: str
  context_name:
    description:
      - Name of the cluster, user and context in the file. It defaults to O(name).
      - Entries that have this name already are replaced, but a context that leads to a cluster of another name is refused.
    type: str
  make_current:
    description:
      - Whether to make the context the current one of a file that exists. In a new file it always is.
    type: bool
    default: false
  service_account:
    description:
      - A service account in the virtual cluster that the kubeconfig is for, instead of its administrator.
      - It is created with a label of ours. One without that label is never touched.
      - Its token is kept while the API server accepts it and a third of its time is left, so the task has to run again before.
      - The API server has to answer on the machine the module runs on, whatever O(verify) says.
    type: dict
    suboptions:
      name:
        description:
          - Name of the service account.
        type: str
        required: true
      namespace:
        description:
          - Its namespace in the virtual cluster, which has to exist.
        type: str
        default: kube-system
      cluster_role:
        description:
          - Cluster role in the virtual cluster that it gets, in all namespaces, such as V(view), V(edit) or V(cluster-admin).
        type: str
      expiration:
        description:
          - Seconds until a new token ends, 600 at least.
        type: int
        default: 86400
  verify:
    description:
      - Whether the API server has to answer an authenticated request first, from the machine the module runs on.
    type: bool
    default: true
  timeout:
    description:
      - Seconds to wait for that answer.
    type: int
    default: 30
requirements:
  - kubernetes >= 24.2.0
  - C(cryptography), to tell when certificates expire. Debian's python3-kubernetes brings it.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.vcluster
"""

EXAMPLES = r"""
- name: Write the team's kubeconfig
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /etc/kubegpu/dc1/team-ml.yml

- name: Write one for clients behind a load balancer of our own
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /srv/handout/team-ml.yml
    server: https://team-ml.example:6443
    verify: false

- name: Add the virtual cluster to one's own kubeconfig, and switch to it
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: ~/.kube/config
    make_current: true

- name: Let a pipeline deploy for a day
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /srv/handout/team-ml-deployer.yml
    service_account:
      name: deployer
      cluster_role: edit

- name: Let it no longer
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    path: /srv/handout/team-ml-deployer.yml
    service_account:
      name: deployer
    state: absent

- name: Get one without a file
  kubegpu.tenancy.vcluster_kubeconfig:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
  register: team_ml
  no_log: true
"""

RETURN = r"""
path:
  description: The file.
  returned: when O(path) is given
  type: str
  sample: /etc/kubegpu/dc1/team-ml.yml
server:
  description: Address of the API server in the kubeconfig.
  returned: when O(state=present), and in check mode when the virtual cluster exists
  type: str
  sample: https://172.18.0.3:31234
context:
  description: Name of the context in the kubeconfig.
  returned: success
  type: str
  sample: team-ml
problems:
  description: Everything that is wrong with the options, each with its path.
  returned: when options were refused
  type: list
  elements: str
  sample: ["server: 'team-ml.example' is not an address such as https://host.example:6443."]
expires:
  description: When the certificate or token in the kubeconfig ends, in UTC. Null where that is not known.
  returned: when O(state=present), and in check mode when the virtual cluster exists
  type: str
  sample: "2027-11-21T12:00:00Z"
kubeconfig:
  description: The kubeconfig with its credentials. Set C(no_log) on the task, which otherwise shows them.
  returned: when O(state=present) without O(path), but not in check mode with O(service_account)
  type: dict
"""

import datetime
import os
import stat
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import read_file, write_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, ask, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, check_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Change, outcome
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig import values as kc
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library.
    pass

Object = dict[str, t.Any]
Result = dict[str, t.Any]
Ask = t.Callable[[Object, str], Object]

# What everyone may read whom the API server knows, and nobody else.
KNOWN_PATH = "/api"


class File:
    """The file as it was found; nothing in it where none is named or there."""

    def __init__(self, path: str | None, context: str) -> None:
        self.path = os.path.abspath(path) if path else ""
        try:
            self.content = read_file(self.path) if path else None
            self.config = None if self.content is None else kc.parse(self.content, self.path, context)
        except TenancyError as exc:
            raise TenancyError(f"path: {exc.message}") from exc
        status = None if self.content is None else os.stat(self.path)
        self.mode = f"{stat.S_IMODE(status.st_mode):04o}" if status else None
        self.owner = (status.st_uid, status.st_gid) if status else (None, None)

    def write(self, config: Object) -> None:
        content = None if config == self.config else yaml.safe_dump(config, sort_keys=False).encode()
        try:
            # As others wrote it, where only the mode is wrong.
            write_file(self.path, content or self.content or b"", 0o600, *self.owner)
        except TenancyError as exc:
            told = "Its folder has to exist, and the user that the task runs as has to be allowed to write there."
            raise TenancyError(f"path: {exc.message}. {told}") from exc

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except OSError as exc:
            raise TenancyError(f"path: {self.path} cannot be removed: {exc}") from exc


class VirtualCluster:
    """The way into one virtual cluster."""

    def __init__(
        self, params: t.Mapping[str, t.Any], kube: Kube, ask: Ask = ask, connect: t.Callable[..., Kube] = Kube.connect
    ) -> None:
        self.params = params
        self.kube = kube
        self.ask = ask
        self.connect = connect
        self.name: str = params["name"]
        self.namespace: str = params["namespace"] or f"tenant-{self.name}"
        self.context: str = params["context_name"] or self.name
        self.secret = kube.get("v1", "Secret", f"vc-{self.name}", self.namespace)

    def problem(self) -> str | None:
        """Why there is no way in, as far as the host cluster knows."""
        if self.secret is None:
            return f"has no kubeconfig: its Secret vc-{self.name} does not exist."
        if ended := kc.expired(self.secret, datetime.datetime.now(datetime.UTC)):
            return (
                f"lets nobody in: the client certificate in its Secret vc-{self.name} expired {ended}. "
                "The module vcluster with state=present has it renewed."
            )
        return None

    def admin(self, verify: bool) -> Object:
        """The administrator's kubeconfig."""
        if problem := self.problem():
            raise TenancyError(f"Virtual cluster {self.name} in namespace {self.namespace} {problem}")
        config = kc.kubeconfig(
            t.cast(Object, self.secret), self.context, self.params["server"] or self._server(), self.params["proxy_url"]
        )
        if verify:
            self._wait(config, vc.READY_PATH)
        return config

    def _server(self) -> str:
        service = self.kube.get("v1", "Service", self.name, self.namespace)
        pods = self.kube.list("v1", "Pod", self.namespace, f"{vc.CONTROL_PLANE},release={self.name}")
        ingress = None
        if service and service["spec"].get("type", "ClusterIP") == "ClusterIP":
            ingress = self.kube.get("networking.k8s.io/v1", "Ingress", self.name, self.namespace)
        server, why = kc.server_address(service, pods, ingress)
        if server is None:
            raise TenancyError(f"server: give the address of virtual cluster {self.name}; none can be derived, because {why}.")
        return server

    def _wait(self, config: Object, path: str) -> None:
        wait_for(f"an answer of virtual cluster {self.name}", lambda: self._answers(config, path), self.params["timeout"])

    def _answers(self, config: Object, path: str) -> tuple[bool | None, str]:
        try:
            self.ask(config, path)
        except TenancyError as exc:
            return None, exc.message
        return True, ""

    # --- its service account ---

    def account(self, admin: Object, old_token: str, check_mode: bool) -> tuple[Object, list[Change]]:
        """The service account's kubeconfig, its token empty where it is still to come, and what changes in the virtual cluster."""
        account = self.params["service_account"]
        virtual = self._enter(admin)
        role = account["cluster_role"]
        if role and virtual.get(kc.RBAC, "ClusterRole", role) is None:
            raise TenancyError(f"service_account.cluster_role: virtual cluster {self.name} has no cluster role {role}.")
        changes = self._have(virtual, True, check_mode)
        config = kc.with_token(admin, old_token)
        who = (account["name"], account["namespace"], account["expiration"])
        if not kc.serves(old_token, *who, datetime.datetime.now(datetime.UTC)) or not self._answers(config, KNOWN_PATH)[0]:
            config = kc.with_token(admin, "" if check_mode else virtual.create_token(*who))
            if not check_mode:
                self._wait(config, KNOWN_PATH)
        return config, changes

    def revoke(self, check_mode: bool) -> list[Change]:
        """Remove the service account; with the virtual cluster it is gone anyway."""
        return self._have(self._enter(self.admin(verify=True)), False, check_mode) if self.secret else []

    def _enter(self, admin: Object) -> Kube:
        # The context is named lest one of the environment's is taken.
        return self.connect(kubeconfig=admin, context=self.context)

    def _have(self, virtual: Kube, wanted: bool, check_mode: bool) -> list[Change]:
        """Have the service account with its role, or neither of them."""
        account = self.params["service_account"]
        steps: list[tuple[str, Object, Object | None, bool]] = []
        for what, item in kc.account_objects(account["name"], account["namespace"], account["cluster_role"]).items():
            metadata = item["metadata"]
            found = virtual.get(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace"))
            needed = wanted and kc.told(item) is not None
            if found and not vc.OWNED_LABELS.items() <= (found["metadata"].get("labels") or {}).items():
                if not wanted:
                    continue
                raise TenancyError(
                    f"service_account.name: {item['kind']} {metadata['name']} in virtual cluster {self.name} "
                    "was not made by this collection; it stays untouched."
                )
            if bool(found) != needed or (found and any(found.get(key) != item.get(key) for key in ("roleRef", "subjects"))):
                steps.append((what, item, found, needed))
        for _what, item, found, needed in [] if check_mode else steps:
            metadata = item["metadata"]
            if found:
                # What a binding binds to cannot be changed.
                virtual.delete(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace"))
            if needed:
                virtual.create(item)
        return [(what, kc.told(found), kc.told(item) if needed else None) for what, item, found, needed in steps]


def _check_expiration(account: Object | None) -> None:
    if account and account["expiration"] < 600:
        raise TenancyError("service_account.expiration: the API server grants no less than 600 seconds.")


def present(params: t.Mapping[str, t.Any], cluster: VirtualCluster, check_mode: bool) -> Result:
    context, account = cluster.context, params["service_account"]
    check_all(
        lambda: vc.check_name(params["name"]),
        lambda: vc.check_namespace(params["namespace"]),
        lambda: vc.check_url("server", params["server"], ("https",)),
        lambda: vc.check_url("proxy_url", params["proxy_url"], ("http", "https", "socks5")),
        lambda: _check_expiration(account),
    )
    file = File(params["path"], context)
    # In check mode an earlier task would have made its folder.
    if file.path and not check_mode and not os.path.isdir(folder := os.path.dirname(file.path)):
        raise TenancyError(f"path: there is no folder {folder}.")
    result: Result = {"context": context} | ({"path": params["path"]} if file.path else {})
    if check_mode and cluster.problem():  # An earlier task would have solved it.
        diff = {"before": _summary(file, file.config, context), "after": {"context": context, "credentials": "new"}}
        return result | {"changed": bool(file.path or account), "diff": diff}

    config = cluster.admin(verify=bool(account) or (params["verify"] and not check_mode))
    changes: list[Change] = []
    if account:
        old_token = str(kc.entry(file.config, "users", context).get("token", ""))
        config, changes = cluster.account(config, old_token, check_mode)
    result |= outcome(changes)
    user = config["users"][0]["user"]
    result |= {"server": config["clusters"][0]["cluster"]["server"], "expires": kc.iso(kc.expiry(user))}
    if not file.path:
        return result | ({} if user.get("token") == "" else {"kubeconfig": config})

    merged = kc.merge(file.config, config, params["make_current"])
    old, new = _summary(file, file.config, context), _summary(file, merged, context)
    if not kc.same_credentials(file.config, merged, context):
        new["credentials"] = "changed" if kc.holds(file.config, context) else "new"
    if file.mode not in (None, "0600"):
        old["mode"], new["mode"] = file.mode, "0600"
    changed = merged != file.config or file.mode != "0600"
    if changed and not check_mode:
        file.write(merged)
    diff = {"before": result["diff"]["before"] | old, "after": result["diff"]["after"] | new}
    return result | {"changed": changed or bool(changes), "diff": diff}


def absent(params: t.Mapping[str, t.Any], cluster: VirtualCluster | None, check_mode: bool) -> Result:
    context: str = params["context_name"] or params["name"]
    file = File(params["path"], context)
    left = kc.without(file.config, context) if file.config else None
    # First, because without its file nobody would know of a token that still lets in.
    result = outcome(cluster.revoke(check_mode) if cluster else [], context=context)
    if not file.path:
        return result
    changed = kc.holds(file.config, context)
    if changed and not check_mode:
        if left:
            file.write(left)
        else:
            file.remove()
    diff = {
        "before": result["diff"]["before"] | _summary(file, file.config, context),
        "after": result["diff"]["after"] | _summary(file, left if changed else file.config, context),
    }
    return result | {"changed": changed or result["changed"], "path": params["path"], "diff": diff}


def _summary(file: File, config: Object | None, context: str) -> Object:
    """What a diff may show of a file: no credentials."""
    return {"path": file.path} | kc.summary(config, context) if config else {}


def main() -> None:
    module = kube_module(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str"},
            "path": {"type": "path"},
            "server": {"type": "str"},
            "proxy_url": {"type": "str"},
            "context_name": {"type": "str"},
            "make_current": {"type": "bool", "default": False},
            "service_account": {
                "type": "dict",
                "options": {
                    "name": {"type": "str", "required": True},
                    "namespace": {"type": "str", "default": "kube-system"},
                    "cluster_role": {"type": "str"},
                    "expiration": {"type": "int", "default": 86400},
                },
            },
            "verify": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 30},
        },
        required_if=[("state", "absent", ("path", "service_account"), True)],
    )
    params = module.params
    try:
        if params["state"] == "present":
            result = present(params, VirtualCluster(params, Kube.connect(module)), module.check_mode)
        else:
            # A file can be tidied up when nothing else is left.
            cluster = VirtualCluster(params, Kube.connect(module)) if params["service_account"] else None
            result = absent(params, cluster, module.check_mode)
        module.exit_json(**result)
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
