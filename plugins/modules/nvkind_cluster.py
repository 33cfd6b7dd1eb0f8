#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.nvkind_cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvkind_cluster
short_description: Manage a Kubernetes cluster in Docker whose workers have GPUs
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Makes a kind cluster on a GPU host, gives each worker the GPUs it is meant to have, and hides the others from it.
  - Regardless of which program made the cluster, inside each GPU node this module does what nvkind does, but without the internet and
    again on every run where it is due. It copies NVIDIA's container toolkit from the host, gives containerd the runtime V(nvidia), and
    compares the GPUs that the node sees with those assigned to it. Nodes without GPUs see none.
  - The state is read from Docker. A cluster whose creation was cut short is made again, stopped nodes are started, and a
    cluster with another layout is left alone unless O(recreate) says otherwise.
  - A run waits for another one on the same cluster to end, also for one whose controller is gone.
  - Docker's default runtime has to be NVIDIA's and must accept device lists as volume mounts, see
    P(kubegpu.tenancy.docker_nvidia_runtime#role).
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
requirements:
  - docker, kind 0.33 or newer, NVIDIA's driver and container toolkit on the host
  - for O(engine=nvkind) also nvkind and kubectl
options:
  state:
    description:
      - V(present) makes the cluster or brings it to the desired state, V(absent) deletes it.
    type: str
    choices: [present, absent]
    default: present
  engine:
    description:
      - What makes the cluster. Everything else is the same, and an existing cluster is not made again for another engine.
      - V(kind) needs nothing in the nodes from the internet.
      - V(nvkind) is NVIDIA's program, known as of its commit 24c190e. It installs the newest toolkit from the internet in each
        node, which is then replaced by the host's. However it ends, the cluster is looked at. Only when that is not whole the
        end is an error, else a warning.
    type: str
    choices: [kind, nvkind]
    default: kind
  name:
    description:
      - The cluster's name. Its nodes are called C(NAME-control-plane), C(NAME-worker), C(NAME-worker2) and so on.
      - At most 49 lower-case letters, digits, C(-) and C(.), beginning with a letter or digit. V(network) is reserved. Other names
        are refused for every O(state).
    type: str
    required: true
  image:
    description:
      - The node image, which decides the version of Kubernetes.
      - Without it a new cluster gets kind's default, and an existing one is not compared.
    type: str
  workers:
    description:
      - The workers, in order. One without GPUs is an empty dictionary.
    type: list
    elements: dict
    default: []
    suboptions:
      gpus:
        description:
          - The worker's GPUs, by index or UUID as C(nvidia-smi -L) lists them.
        type: list
        elements: str
      count:
        description:
          - How many GPUs the worker gets, from the GPUs that no O(workers[].gpus) names, in order.
        type: int
      labels:
        description:
          - Labels of the node. A worker with GPUs also gets C(nvidia.com/gpu.present=true). Other labels stay as they are.
        type: dict
        default: {}
  control_plane_schedulable:
    description:
      - Whether the control plane takes ordinary pods too. A cluster without workers always does.
    type: bool
    default: false
  registry_mirrors:
    description:
      - Where the nodes pull images from, by upstream registry, such as V(docker.io). The upstream is asked when the mirror does
        not answer.
      - An address whose path holds C(/v2) is used as it is, for a mirror that keeps each upstream under a name of its own.
    type: dict
    default: {}
  component_tags:
    description:
      - Image tags that differ from the tags that kubeadm expects, for a registry that holds others.
      - Only used when the cluster is made.
    type: dict
    default: {}
    suboptions:
      coredns:
        description:
          - Tag of the CoreDNS image.
        type: str
      etcd:
        description:
          - Tag of the etcd image.
        type: str
  kubeconfig:
    description:
      - Where to write the administrator's kubeconfig, readable by its owner only.
      - Missing folders are made. Existing folders are not changed. Only below C(/etc/kubegpu) folders are made for root
        alone, and removed with the cluster when they are empty.
    type: path
    required: true
  recreate:
    description:
      - Whether a cluster whose nodes, GPUs or image differ from the desired ones, or that lacks a node, may be deleted and made
        again. Everything that runs in it is lost.
    type: bool
    default: false
  timeout:
    description:
      - Seconds for the whole change, with the end of another run on the cluster, its creation, and until its nodes are ready.
    type: int
    default: 600
"""

EXAMPLES = r"""
- name: Make a cluster with two workers of four GPUs each
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    workers:
      - gpus: [0, 1, 2, 3]
      - gpus: [4, 5, 6, 7]
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml

- name: Make a cluster on a site without internet
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    image: registry.example.com/kindest/node:v1.35.4
    workers:
      - count: 8
        labels: {example.com/rack: r1}
      - {}
    registry_mirrors:
      docker.io: https://registry.example.com/v2/docker.io
      registry.k8s.io: https://registry.example.com/v2/registry.k8s.io
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml

- name: Make a cluster by NVIDIA's own program
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    engine: nvkind
    workers:
      - count: 8
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml

- name: Delete the cluster
  kubegpu.tenancy.nvkind_cluster:
    name: kubegpu
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    state: absent
"""

RETURN = r"""
kubeconfig:
  description:
    - The file with the administrator's kubeconfig.
  returned: always
  type: str
  sample: /etc/kubegpu/kubegpu/cluster.yml
readable:
  description:
    - Whether the cluster can be read by O(kubeconfig) after the run. Not so in check mode where the cluster would be made, nodes of it
      started, or its kubeconfig written.
  returned: when O(state=present)
  type: bool
  sample: true
nodes:
  description:
    - The nodes.
  returned: when O(state=present)
  type: list
  elements: dict
  contains:
    name:
      description:
        - The node's name, in Kubernetes and in Docker.
      type: str
      sample: kubegpu-worker
    role:
      description:
        - V(control-plane) or V(worker).
      type: str
      sample: worker
    gpus:
      description:
        - The node's GPUs.
      type: list
      elements: dict
      contains:
        index:
          description:
            - The GPU's index on the host.
          type: int
          sample: 0
        uuid:
          description:
            - The GPU's UUID.
          type: str
          sample: GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10
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
    - {step: hide the GPUs of other nodes in kubegpu-worker, why: "it has to see 0, 1 of the host's GPUs, also after a restart", seconds: 0.4}
seconds:
  description: How long everything took.
  returned: success
  type: float
  sample: 74.1
"""

import contextlib

from ..module_utils._adapters.docker import Docker
from ..module_utils._adapters.files import Files
from ..module_utils._adapters.host import Host, lock
from ..module_utils._common.run import Result
from ..module_utils._kernel.host_module import ModuleRun, run_host_module
from ..module_utils._kind.lifecycle import Cluster

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "engine": {"type": "str", "choices": ["kind", "nvkind"], "default": "kind"},
    "name": {"type": "str", "required": True},
    "image": {"type": "str"},
    "workers": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "gpus": {"type": "list", "elements": "str"},
            "count": {"type": "int"},
            "labels": {"type": "dict", "default": {}},
        },
        "mutually_exclusive": [("gpus", "count")],
    },
    "control_plane_schedulable": {"type": "bool", "default": False},
    "registry_mirrors": {"type": "dict", "default": {}},
    "component_tags": {
        "type": "dict",
        "default": {},
        "options": {"coredns": {"type": "str"}, "etcd": {"type": "str"}},
    },
    "kubeconfig": {"type": "path", "required": True},
    "recreate": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 600},
}


def reconcile(run: ModuleRun) -> Result:
    programs = (run.run_program, run.find_program)
    cluster = Cluster(run, Docker(*programs), Host(*programs), Files())
    with contextlib.nullcontext() if run.check_mode else lock(run.params["name"], run.deadline):
        return cluster.present() if run.params["state"] == "present" else cluster.absent()


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
