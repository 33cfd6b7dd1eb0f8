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
      - Seconds until the server has to run, again until all clients have to reach it, and again until the namespace is empty.
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
  description: How long everything took, until the namespace was empty.
  returned: success
  type: float
  sample: 19.8
"""

import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, Object, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_network import plan as probe


def run(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool) -> Object:
    if check_mode:
        results = [probe.result(path, "not_tried", "check mode") for path in probe.PATHS]
        return {"changed": False, "enforced": None, "results": results, "seconds": 0.0}
    start = time.monotonic()
    enforced, results = probe.look(kube, params["namespace"], params["image"], params["timeout"], params["policy_timeout"])
    return {"changed": False, "enforced": enforced, "results": results, "seconds": round(time.monotonic() - start, 1)}


def main() -> None:
    module = kube_module(
        argument_spec={
            "namespace": {"type": "str", "default": probe.NAME},
            "image": {"type": "str", "default": probe.IMAGE},
            "timeout": {"type": "int", "default": probe.TIMEOUT},
            "policy_timeout": {"type": "int", "default": probe.POLICY_TIMEOUT},
        }
    )
    try:
        module.exit_json(**run(module.params, Kube.connect(module), module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
