#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.network_policy_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: network_policy_probe
short_description: Find out whether a cluster enforces network policies
version_added: 0.1.0
description:
  - The API server takes network policies whether or not something enforces them. This module runs a server and clients that keep
    asking it by its address, in a namespace of its own that is removed with them.
  - Without a policy the clients have to reach the server. With one that forbids it they must stop to, and without it reach it again.
  - A client runs on the server's node, and another one on a second node where two take pods that tolerate nothing.
  - Its pods satisfy the pod security standard V(restricted) and have small limits.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  namespace:
    description:
      - Namespace that is made for the pods and deleted.
    type: str
    default: kubegpu-network-probe
  image:
    description:
      - An image with busybox's C(sh), C(httpd) and C(wget).
    type: str
    default: docker.io/library/busybox:1.37.0
  timeout:
    description:
      - Seconds until the server has to run, again until all clients have to reach it, and again for the removal of the namespace.
    type: int
    default: 90
  policy_timeout:
    description:
      - Seconds until a policy has to have taken effect, and again until the end of its effect when it is gone.
    type: int
    default: 30
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    details: Nothing is run in check mode. All paths are returned as not tried, and RV(enforced) is null.
  diff_mode:
    support: none
  idempotent:
    details: Nothing is left in the cluster, so nothing ever counts as changed.
notes:
  - That policies are not enforced is no failure of this module. It fails where it cannot be told, above all when the server is not
    reached without any policy.
seealso:
  - module: kubegpu.tenancy.vcluster
"""

EXAMPLES = r"""
- name: Find out whether tenants can be kept apart by network policies
  kubegpu.tenancy.network_policy_probe:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
  register: probe

- name: Refuse to go on where they cannot
  ansible.builtin.assert:
    that: probe.enforced
"""

RETURN = r"""
enforced:
  description: Whether policies are enforced on all paths that were tried. Null in check mode.
  returned: success
  type: bool
  sample: true
results:
  description: One record for each path between two pods.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The path, V(same_node) or V(across_nodes).
      type: str
      returned: always
    verdict:
      description: V(enforced), V(unenforced) or V(not_tried).
      type: str
      returned: always
    reason:
      description: What was seen.
      type: str
      returned: always
    seconds:
      description: Seconds from the creation of the policy to the verdict.
      type: float
      returned: always
  sample:
    - {name: same_node, verdict: enforced, reason: the server was not reached any more from n1 to n1, seconds: 4.1}
    - {name: across_nodes, verdict: enforced, reason: the server was not reached any more from n2 to n1, seconds: 4.1}
seconds:
  description: How long everything took, the removal of the namespace included.
  returned: success
  type: float
  sample: 19.8
"""

import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils import _network_probe as probe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kube import Kube, Object, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe import own_namespace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._wait import wait_for


class Probe:
    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube) -> None:
        self.kube = kube
        self.namespace: str = params["namespace"]
        self.image: str = params["image"]
        self.timeout: int = params["timeout"]
        self.policy_timeout: int = params["policy_timeout"]
        self.nodes = probe.places(kube.list("v1", "Node"))

    def run(self) -> list[Object]:
        with own_namespace(self.kube, self.namespace, self.timeout):
            self._start()
            self.kube.create(probe.policy(self.namespace))
            cut_off = self._cut_off()
            self.kube.delete(*probe.POLICY, probe.NAME, self.namespace)
            # Had the server died meanwhile, it would look like a policy that is enforced.
            self._wait_until_reached("the clients to reach the server again without the policy", self.policy_timeout)
            return probe.results(self.nodes, cut_off, self.policy_timeout)

    def _start(self) -> None:
        self.kube.create(probe.server(self.namespace, self.image, self.nodes[probe.PATHS[0]]))
        address = wait_for("the server", lambda: probe.server_address(self._pods()), self.timeout, interval=0.5)
        for path, node in self.nodes.items():
            self.kube.create(probe.client(path, self.namespace, self.image, node, address))
        self._wait_until_reached("the clients to reach the server while nothing forbids it", self.timeout)

    def _wait_until_reached(self, what: str, timeout: int) -> None:
        def look() -> tuple[bool | None, str]:
            reached, seen = probe.reaching(self._pods(), self.nodes)
            return (True, "") if reached == set(self.nodes) else (None, seen)

        wait_for(what, look, timeout, interval=0.5)

    def _cut_off(self) -> dict[str, float]:
        """After how many seconds the server was not reached any more, by path."""
        start = time.monotonic()
        cut_off: dict[str, float] = {}

        def look() -> tuple[bool | None, str]:
            nonlocal cut_off
            reached, _seen = probe.reaching(self._pods(), self.nodes)
            now = time.monotonic() - start
            cut_off = {path: cut_off.get(path, now) for path in self.nodes if path not in reached}
            return (None, "") if reached else (True, "")

        try:
            wait_for("the policy to take effect", look, self.policy_timeout, interval=0.5)
        except TenancyError as exc:
            # That it takes none is an answer; anything else is not.
            if "last_seen" not in exc.details:
                raise
        return cut_off

    def _pods(self) -> list[Object]:
        return self.kube.list("v1", "Pod", self.namespace)


def run(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool) -> Object:
    if check_mode:
        results = [probe.result(path, "not_tried", "check mode") for path in probe.PATHS]
        return {"changed": False, "enforced": None, "results": results, "seconds": 0.0}
    start = time.monotonic()
    results = Probe(params, kube).run()
    enforced = all(found["verdict"] == "enforced" for found in results)
    return {"changed": False, "enforced": enforced, "results": results, "seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    module = kube_module(
        argument_spec={
            "namespace": {"type": "str", "default": probe.NAME},
            "image": {"type": "str", "default": "docker.io/library/busybox:1.37.0"},
            "timeout": {"type": "int", "default": 90},
            "policy_timeout": {"type": "int", "default": 30},
        }
    )
    try:
        module.exit_json(**run(module.params, Kube.connect(module), module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
