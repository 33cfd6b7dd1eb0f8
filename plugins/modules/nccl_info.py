#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.nccl_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_info
short_description: Tell whether the GPUs of a job reach each other by GPUDirect RDMA, or by TCP
version_added: 0.1.0
description:
  - Reads the logs of a job's pods, which need C(NCCL_DEBUG=INFO) in their environment, and tells by which way GPUs of different nodes exchange
    data. Where that is not GPUDirect RDMA, it tells why, as far as the log says so.
  - NCCL falls back to a slower way without an error, so a job with a missing RDMA device only seems slow.
  - The log is the job's own word. Nothing is measured.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  namespace:
    description: Namespace of the pods.
    type: str
    required: true
  label_selector:
    description: Labels of the pods, such as C(job-name=train).
    type: str
    required: true
  container:
    description: The container that uses NCCL. It may be left out where pods have one only.
    type: str
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Read by which way the job's GPUs reach each other
  kubegpu.tenancy.nccl_info:
    kubeconfig: /etc/kubegpu/dc1/tenants/team-ml.yml
    namespace: training
    label_selector: job-name=llama
  register: nccl

- name: Fail where it is not GPUDirect RDMA
  ansible.builtin.assert:
    that: nccl.pods | rejectattr('transport', 'in', ['gdr', 'within_node']) | length == 0
    fail_msg: "{{ nccl.pods | map(attribute='reasons') | flatten | map(attribute='message') | unique | join(' ') }}"
"""

RETURN = r"""
pods:
  description: The pods, by their names.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The pod's name.
      type: str
    transport:
      description:
        - The slowest way that its log names. V(gdr) for GPUDirect RDMA, V(rdma) for RDMA through the host's memory, V(tcp).
        - V(within_node) where its GPUs reach each other without a network, V(unknown) where the log does not say.
      type: str
    links:
      description: Connections to other nodes that the log names.
      type: int
    gdr_links:
      description: How many of these use GPUDirect RDMA.
      type: int
    networks:
      description: Networks of NCCL, such as V(IB) or V(Socket).
      type: list
      elements: str
    reasons:
      description: Why it is not the fastest way, as far as the log says so.
      type: list
      elements: dict
      contains:
        reason:
          description: V(ib_disabled), V(socket_chosen), V(no_device), V(no_peer_memory), V(too_far), V(ofi) or V(no_lines).
          type: str
        message:
          description: What is so.
          type: str
        advice:
          description: What to do.
          type: str
  sample:
    - name: llama-0
      transport: tcp
      links: 4
      gdr_links: 0
      networks: [Socket]
      reasons:
        - reason: no_device
          message: The pod sees no RDMA device.
          advice: Ask for one in its resources, such as rdma/rdma_shared_device_a.
unread:
  description: A sentence for each pod whose log could not be read.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ..module_utils._engine.nccl_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
