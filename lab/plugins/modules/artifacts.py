#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: artifacts
short_description: Build or pull the lab's programs, images and charts into a cache
version_added: 0.1.0
description:
  - Makes what the role P(kubegpu.lab.lab#role) needs out of pinned Go modules and Debian packages, or copies
    images, charts and programs that upstream publishes. Programs are checked against their published SHA-256.
  - It runs on the controller and prints its progress, one line a step and one every half minute.
  - Every artifact is named after all it is made from, so what is there is not built again, and a build that was
    killed goes on where it stopped.
author: kubegpu.tenancy contributors (@kubegpu)
extends_documentation_fragment: kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
options:
  cache:
    description: Folder of the cache, shared by all labs of a user.
    type: path
    required: true
  role_files:
    description: The C(files/) folder of the role, with the pinned modules.
    type: path
    required: true
  versions:
    description: Versions by program; V(kai) and V(vcluster) are lists.
    type: dict
    required: true
  lab:
    description:
      - V(name), V(gpu_name), V(gpu_memory_mib), V(driver_version) and Debian's V(host_release) of the simulated host, and whether
        its cluster enforces V(network_policies) where its node image is built.
    type: dict
    required: true
  source:
    description:
      - V(build) compiles everything, and needs no registry of container images.
      - V(pull) copies from upstream, also kind's node image, so that nothing is compiled but the simulated driver.
      - V(auto) keeps what is there, else pulls if all of upstream's servers answer within five seconds, else builds.
    type: str
    choices: [auto, build, pull]
    default: auto
  mirror:
    description:
      - Address of a web server to pull from in place of upstream, such as V(https://mirror.example.com).
      - It holds the registries' images under their whole upstream references, and copies of other files, such as of
        V(https://dl.k8s.io/some/path), under V(https://mirror.example.com/dl.k8s.io/some/path).
      - TLS is left out only with V(http://).
    type: str
    default: ""
  host_image:
    description: Write the GPU host's file system to this file, as C(docker import) takes it.
    type: path
"""

EXAMPLES = r"""
- name: Build what is missing
  kubegpu.lab.artifacts:
    cache: ~/.cache/kubegpu.tenancy
    role_files: "{{ role_path }}/files"
    versions: "{{ lab_versions }}"
    lab:
      name: kubegpu-lab
      gpu_name: NVIDIA H200
      gpu_memory_mib: 143771
      driver_version: 580.95.05
      host_release: trixie
      network_policies: false

- name: Pull what is missing from the site's mirror
  kubegpu.lab.artifacts:
    cache: ~/.cache/kubegpu.tenancy
    role_files: "{{ role_path }}/files"
    versions: "{{ lab_versions }}"
    lab: "{{ lab_gpus }}"
    source: pull
    mirror: https://mirror.example.com
"""

RETURN = r"""
built:
  description: Names of what was built or pulled, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [program etcd-v3.6.16]
charts:
  description: Folder with the packaged charts.
  returned: success
  type: str
  sample: /home/me/.cache/kubegpu.tenancy/charts
registry:
  description: Storage of the registry that holds the images under their upstream names.
  returned: success
  type: str
  sample: /home/me/.cache/kubegpu.tenancy/registry
host_image:
  description: Reference of the GPU host's image, with a digest of its parts as tag.
  returned: success
  type: str
  sample: kubegpu.tenancy/lab-host/kubegpu-lab:0123456789ab
stop_signal:
  description: Signal that stops the host's systemd.
  returned: success
  type: str
  sample: SIGRTMIN+3
component_tags:
  description: What O(kubegpu.tenancy.nvkind_cluster#module:component_tags) is for the lab's node image, empty for one from upstream.
  returned: success
  type: dict
  sample: {coredns: v1.14.2, etcd: 3.6.16-0}
"""
