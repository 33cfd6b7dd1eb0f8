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
  - Writes a file with one cluster, user and context, with which clients reach a virtual cluster directly, without a port-forward.
  - The file is readable by its owner only, is replaced atomically, and is written only after the API server answered an
    authenticated request.
  - No other kubeconfig is touched.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) writes the file, V(absent) removes it.
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
      - The file. Its folder has to exist.
    type: path
    required: true
  server:
    description:
      - Address of the API server as clients reach it. Its host has to be in the serving certificate.
      - It defaults to the node port on the node the control plane runs on, or to the address of the load balancer.
    type: str
  proxy_url:
    description:
      - Proxy clients use to get there.
    type: str
  context_name:
    description:
      - Name of the cluster, user and context in the file. It defaults to O(name).
    type: str
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
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /etc/kubegpu/dc1/team-ml.yml
server:
  description: Address of the API server in the file.
  returned: when O(state=present), and in check mode when the virtual cluster exists
  type: str
  sample: https://172.18.0.3:31234
context:
  description: Name of the context in the file.
  returned: when O(state=present)
  type: str
  sample: team-ml
problems:
  description: Everything that is wrong with the options, each with its path.
  returned: when options were refused
  type: list
  elements: str
  sample: ["server: 'team-ml.example' is not an address such as https://host.example:6443."]
"""

import os
import stat
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils import _vcluster as vc
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError, check_all
from ansible_collections.kubegpu.tenancy.plugins.module_utils._journal import write_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kube import Kube, ask, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._wait import wait_for

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library.
    pass

Object = dict[str, t.Any]
Result = dict[str, t.Any]
Ask = t.Callable[[Object, str], Object]


def present(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool, ask: Ask = ask) -> Result:
    name, path = params["name"], params["path"]
    namespace, context = params["namespace"] or f"tenant-{name}", params["context_name"] or name
    check_all(
        lambda: vc.check_name(name),
        lambda: vc.check_namespace(params["namespace"]),
        lambda: vc.check_url("server", params["server"], ("https",)),
        lambda: vc.check_url("proxy_url", params["proxy_url"], ("http", "https", "socks5")),
    )
    folder = os.path.dirname(os.path.abspath(path))
    if not check_mode and not os.path.isdir(folder):  # In check mode an earlier task would have made it.
        raise TenancyError(f"path: there is no folder {folder}.")
    before, mode = _read(path)
    result: Result = {"path": path, "context": context}

    secret = kube.get("v1", "Secret", f"vc-{name}", namespace)
    if secret is None:
        if check_mode:  # An earlier task would have made it.
            after = {"path": path, "context": context, "credentials": "new"}
            return result | {"changed": True, "diff": {"before": _summary(path, before), "after": after}}
        raise TenancyError(
            f"Virtual cluster {name} in namespace {namespace} has no kubeconfig: its Secret vc-{name} does not exist."
        )
    config = vc.kubeconfig(secret, context, params["server"] or _server(kube, name, namespace), params["proxy_url"])
    if params["verify"] and not check_mode:
        wait_for(f"an answer of virtual cluster {name}", lambda: _answers(config, ask), params["timeout"])

    content = yaml.safe_dump(config, sort_keys=False)
    old, new = _summary(path, before), _summary(path, content)
    if not vc.same_credentials(_parsed(before), config):
        new["credentials"] = "changed" if before else "new"
    if mode not in (None, "0600"):
        old["mode"], new["mode"] = mode, "0600"
    changed = before != content or mode != "0600"
    if changed and not check_mode:
        try:
            write_file(os.path.abspath(path), content.encode(), 0o600)
        except TenancyError as exc:
            raise TenancyError(f"path: {exc.message}") from exc
    return result | {
        "changed": changed,
        "server": config["clusters"][0]["cluster"]["server"],
        "diff": {"before": old, "after": new},
    }


def _server(kube: Kube, name: str, namespace: str) -> str:
    service = kube.get("v1", "Service", name, namespace)
    server, why = vc.server_address(service, kube.list("v1", "Pod", namespace, f"app=vcluster,release={name}"))
    if server is None:
        raise TenancyError(f"server: give the address of virtual cluster {name}; none can be derived, because {why}.")
    return server


def _answers(config: Object, ask: Ask) -> tuple[bool | None, str]:
    try:
        ask(config, vc.READY_PATH)
    except TenancyError as exc:
        return None, exc.message
    return True, ""


def _read(path: str) -> tuple[str | None, str | None]:
    """Content and mode of the file, None when it does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(), f"{stat.S_IMODE(os.fstat(file.fileno()).st_mode):04o}"
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError) as exc:
        raise TenancyError(f"path: {path} cannot be read: {exc}") from exc


def _parsed(content: str | None) -> t.Any:
    try:
        return yaml.safe_load(content or "")
    except yaml.YAMLError:
        return None


def _summary(path: str, content: str | None) -> Object:
    """What a diff may show of a file: no credentials."""
    return {} if content is None else {"path": path} | vc.kubeconfig_summary(_parsed(content))


def absent(params: t.Mapping[str, t.Any], check_mode: bool) -> Result:
    path = params["path"]
    before, _mode = _read(path)
    if before is not None and not check_mode:
        try:
            os.unlink(path)
        except OSError as exc:
            raise TenancyError(f"path: {path} cannot be removed: {exc}") from exc
    return {"changed": before is not None, "path": path, "diff": {"before": _summary(path, before), "after": {}}}


def main() -> None:
    module = kube_module(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "name": {"type": "str", "required": True},
            "namespace": {"type": "str"},
            "path": {"type": "path", "required": True},
            "server": {"type": "str"},
            "proxy_url": {"type": "str"},
            "context_name": {"type": "str"},
            "verify": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 30},
        }
    )
    try:
        if module.params["state"] == "absent":
            result = absent(module.params, module.check_mode)
        else:
            result = present(module.params, Kube.connect(module), module.check_mode)
        module.exit_json(**result)
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
