#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.network_policy_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: network_policy_probe
short_description: Check whether a cluster enforces network policies
version_added: 0.1.0
description:
  - The API server takes network policies whether or not something enforces them. This module runs a server and clients that keep
    asking it by its address, in a namespace of its own that is removed with them.
  - Without a policy the clients have to reach the server. With one that forbids it they must stop to, and without it reach it again.
  - A client runs on the server's node, and another one on a second node where two take the pods.
  - Its pods satisfy the pod security standard V(restricted) and have small limits.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  namespace:
    default: kubegpu-network-probe
  image:
    description:
      - Image of the pods, with busybox's C(sh), C(httpd) and C(wget).
    default: docker.io/library/busybox:1.37.0
  tolerations:
    default: []
  timeout:
    default: 180
  policy_timeout:
    description:
      - Seconds of O(timeout) that a policy gets to take effect, and again to lose it when it is removed. Where fewer are left when
        the pods run, the probe fails.
    type: int
    default: 30
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._probe
  - kubegpu.tenancy._probe.image
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    details: Nothing is run in check mode. All paths are returned as not tried, and RV(enforced) is null.
notes:
  - That policies are not enforced is no failure of this module. It fails where it cannot be found out, above all when the server
    is not reached without any policy.
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

from ..module_utils._common.run import Result, Run
from ..module_utils._kernel.module import run_module
from ..module_utils._probe.plan import IMAGE
from ..module_utils._probe.status import record
from ..module_utils._probe_network.lifecycle import probe
from ..module_utils._probe_network.plan import NAME, PATHS, POLICY_TIMEOUT, TIMEOUT

ARGUMENT_SPEC = {
    "namespace": {"type": "str", "default": NAME},
    "image": {"type": "str", "default": IMAGE},
    "tolerations": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": TIMEOUT},
    "policy_timeout": {"type": "int", "default": POLICY_TIMEOUT},
}
LEAST = {"policy_timeout": 1}


def reconcile(run: Run) -> Result:
    enforced, records = None, [record(path, "not_tried", "check mode") for path in PATHS]
    if not run.check_mode:
        options = {option: run.params[option] for option in ("namespace", "image", "tolerations", "policy_timeout")}
        enforced, records = probe(run.kube, deadline=run.deadline, **options)
    return {"changed": False, "enforced": enforced, "results": records, "seconds": run.deadline.elapsed()}


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
