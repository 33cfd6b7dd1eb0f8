#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.gateway."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway
short_description: Forward the API ports of a GPU host's tenants
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Has HAProxy forward ports of one address of the host to the API servers of a kind cluster's tenants. TLS passes through as it is.
  - A tenant's port is the one that its kubeconfig on the host names. It stays the same when Docker or the host restarts.
  - Each tenant with a kubeconfig in O(tenants_dir) has a port. Without any, and without O(cluster_kubeconfig), nothing is left running.
  - HAProxy runs as a unit of its own, C(kubegpu-gateway-NAME.service), with a configuration below C(/etc/kubegpu). The
    distribution's C(haproxy.service) and C(/etc/haproxy) are not used.
  - When the unit starts, it asks Docker for the present addresses of the nodes, and waits up to two minutes for them.
  - A configuration that HAProxy refuses, and a port that cannot be bound, are refused before anything is written. The refusal names
    the program that has the port.
  - Where only ports of tenants differ, HAProxy is reloaded and connections stay. With another address or network it is restarted.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
options:
  state:
    description:
      - V(present) forwards the ports, V(absent) stops that and removes all files.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name of the kind cluster.
    type: str
    required: true
  address:
    description:
      - IP address of the host that the ports are bound to. That of all interfaces is refused. Required with O(state=present).
    type: str
  allow:
    description:
      - Networks that may connect, such as V(10.20.0.0/16). Others are refused. Required with O(state=present).
    type: list
    elements: str
  tenants_dir:
    description:
      - Folder with the tenants' kubeconfigs, each named C(TENANT.yml). Required with O(state=present).
    type: path
  cluster_kubeconfig:
    description:
      - The administrator's kubeconfig, whose port of the loopback is then forwarded, too. The host cluster's own API server stays
        closed without it.
    type: path
  timeout:
    description:
      - Seconds for the whole change, until all ports answer.
    type: int
    default: 180
seealso:
  - module: kubegpu.tenancy.fetch_kubeconfigs
"""

EXAMPLES = r"""
- name: Let the office reach the tenants
  kubegpu.tenancy.gateway:
    name: kubegpu
    address: 10.0.0.5
    allow: [10.20.0.0/16]
    tenants_dir: /etc/kubegpu/kubegpu/tenants

- name: Close all ports
  kubegpu.tenancy.gateway:
    name: kubegpu
    state: absent
"""

RETURN = r"""
service:
  description:
    - What it took for HAProxy to run as desired, or would take, V(nothing), V(reload), V(restart) or V(stop).
  returned: success
  type: str
  sample: reload
ports:
  description:
    - The tenants' ports by their names.
  returned: success
  type: dict
  sample: {team-ml: 31234}
cluster_port:
  description:
    - The port of the host cluster's API server. Without a value where it is closed.
  returned: success
  type: int
  sample: 41235
others:
  description:
    - Units of gateways of other clusters on this host, which need HAProxy, too.
  returned: success
  type: list
  elements: str
  sample: []
steps:
  description: What was done, or would be done in check mode, in that order, and why.
  returned: when there is something to do
  type: list
  elements: dict
  contains:
    step:
      description: What.
      type: str
      returned: always
    why:
      description: The reason.
      type: str
      returned: always
    seconds:
      description: How long it took.
      type: float
      returned: not in check mode
  sample:
    - {step: reload kubegpu-gateway-kubegpu.service, why: it runs with another configuration, seconds: 0.2}
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 0.6
"""

from ..module_utils._adapters.docker import Docker
from ..module_utils._adapters.files import Files
from ..module_utils._adapters.haproxy import HAProxy
from ..module_utils._adapters.services import Services
from ..module_utils._common.run import Result
from ..module_utils._gateway.lifecycle import Gateway
from ..module_utils._kernel.host_module import ModuleRun, run_host_module

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "name": {"type": "str", "required": True},
    "address": {"type": "str"},
    "allow": {"type": "list", "elements": "str"},
    "tenants_dir": {"type": "path"},
    "cluster_kubeconfig": {"type": "path"},
    "timeout": {"type": "int", "default": 180},
}


def reconcile(run: ModuleRun) -> Result:
    programs = (run.run_program, run.find_program)
    gateway = Gateway(run, Docker(*programs), Files(), HAProxy(*programs), Services(*programs))
    return gateway.present() if run.params["state"] == "present" else gateway.absent()


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC, required_if=[("state", "present", ["address", "allow", "tenants_dir"])])


if __name__ == "__main__":
    main()
