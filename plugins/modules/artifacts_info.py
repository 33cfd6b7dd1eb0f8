#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.artifacts_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: artifacts_info
short_description: List the charts, images and programs that a cluster needs
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Lists what the site playbook pulls for the desired state of a cluster, for operators who have to fill a mirror with it.
  - Every chart is rendered with the values that an installation gives it, and the images that it names are listed. What only runs later
    is added, such as the CoreDNS that vCluster starts, and the pods that KAI Scheduler's operator makes.
  - It changes nothing, and asks no cluster. Charts are read from where the inventory says, or from upstream.
  - Manifests and charts that values of O(cluster) have vCluster install itself, and images of the tenants' own pods, are not looked at.
options:
  cluster:
    description:
      - The desired state, as M(kubegpu.tenancy.tenancy_plan) returns it. Tenants that are V(absent) need nothing.
    type: dict
    default: {}
  settings:
    description:
      - Variables of this collection's roles that are set, by name, such as C(nvkind_image), C(device_plugin_provider) and
        C(rehearsal_candidate). Others are left alone.
    type: dict
    default: {}
  digests:
    description:
      - Whether to ask the registries for the digests of images, and of charts that come from a registry, without credentials. An answer may take ten seconds.
    type: bool
    default: false
  mirrors:
    description:
      - Where images are asked for, by upstream registry, as O(kubegpu.tenancy.nvkind_cluster#module:registry_mirrors) says where nodes
        pull them from. Of a registry without a mirror, the registry itself is asked.
    type: dict
    default: {}
  helm_binary:
    description:
      - The helm program, of Helm 3 or Helm 4.
    type: str
    default: helm
requirements:
  - helm >= 3.14
  - PyYAML
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
seealso:
  - module: kubegpu.tenancy.tenancy_plan
"""

EXAMPLES = r"""
- name: Read the desired state of this inventory host
  kubegpu.tenancy.tenancy_plan:
  register: plan

- name: List what it needs, without touching the host
  kubegpu.tenancy.artifacts_info:
    cluster: "{{ plan.cluster }}"
    settings:
      nvkind_image: docker.io/kindest/node:v1.35.4
  delegate_to: localhost
  register: needed

- name: Write the names of the images, one a line
  ansible.builtin.copy:
    content: "{{ needed.images | map(attribute='image') | join('\n') }}\n"
    dest: images.txt
    mode: "0644"
  delegate_to: localhost

- name: See whether a mirror holds all of them
  kubegpu.tenancy.artifacts_info:
    cluster: "{{ plan.cluster }}"
    digests: true
    mirrors:
      docker.io: https://mirror.example.com/v2/docker.io
      ghcr.io: https://mirror.example.com/v2/ghcr.io
  delegate_to: localhost
  register: held
  failed_when: held is failed or held.missing | length > 0
"""

RETURN = r"""
charts:
  description: The charts.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the chart.
      type: str
      returned: always
    version:
      description: Version of the chart.
      type: str
      returned: always
    pull:
      description: Arguments with which C(helm pull) gets it from upstream.
      type: str
      returned: always
    source:
      description: Where it was read from.
      type: str
      returned: always
    digest:
      description: Digest of its manifest. Null without O(digests), and for a chart that comes from no registry.
      type: str
      returned: always
    for:
      description: Names of the tenants that need it, V(cluster) or V(rehearsal).
      type: list
      elements: str
      returned: always
  sample:
    - name: vcluster
      version: 0.36.1
      pull: vcluster --version 0.36.1 --repo https://charts.loft.sh
      source: /usr/local/share/charts/vcluster-0.36.1.tgz
      digest: null
      for: [team-ml, web]
images:
  description: The images.
  returned: success
  type: list
  elements: dict
  contains:
    image:
      description: Its whole name.
      type: str
      returned: always
    optional:
      description: >-
        Whether the playbooks themselves never start it: hooks that are not run, parts that are on in some clusters only, and what tenants'
        own pods may lead to.
      type: bool
      returned: always
    digest:
      description: Digest of its manifest. Null without O(digests), and where no registry told it.
      type: str
      returned: always
    for:
      description: Names of the tenants that need it, V(cluster) or V(rehearsal).
      type: list
      elements: str
      returned: always
  sample:
    - image: ghcr.io/loft-sh/vcluster-oss:0.36.1
      optional: false
      digest: null
      for: [team-ml, web]
programs:
  description: Programs that have to be on the cluster's host already.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the program.
      type: str
      returned: always
    version:
      description: The oldest version that works. Empty where none is known not to.
      type: str
      returned: always
    source:
      description: Where it is published.
      type: str
      returned: always
  sample:
    - {name: helm, version: "3.14", source: "https://get.helm.sh"}
missing:
  description:
    - Images that are not optional, and charts that come from a registry, for which no registry told a digest, each with the reason.
      Empty without O(digests).
  returned: success
  type: list
  elements: str
  sample: ["docker.io/library/busybox:1.37.0: https://mirror.example.com/v2/docker.io/library/busybox/manifests/1.37.0 is not there: 404 Not Found."]
unknown:
  description: What is needed and cannot be listed, with what makes it known.
  returned: success
  type: list
  elements: str
  sample: ["The node image is not listed, because it is kind's own default: set nvkind_image."]
"""

import typing as t

from ..module_utils._adapters import registry
from ..module_utils._adapters.helm import Helm
from ..module_utils._artifacts import plan
from ..module_utils._artifacts.lifecycle import Artifacts
from ..module_utils._common.run import Result, Run
from ..module_utils._engine.charts import charts_of
from ..module_utils._kernel.host_module import ModuleRun, run_host_module

ARGUMENT_SPEC: dict[str, t.Any] = {
    "cluster": {"type": "dict", "default": {}},
    "settings": {"type": "dict", "default": {}},
    "digests": {"type": "bool", "default": False},
    "mirrors": {"type": "dict", "default": {}},
    "helm_binary": {"type": "str", "default": "helm"},
}


def reconcile(run: Run, helm: Helm, digest: t.Callable[[str], str] = registry.digest) -> Result:
    """List what the desired state needs."""
    params = run.params
    wanted = (params["cluster"], params["settings"])
    found = Artifacts(helm, charts_of)
    for item in plan.installations(*wanted):
        found.add_release(item)
    for image, user in plan.own_images(*wanted):
        found.add_images([(image, True)], user)
    missing = found.ask_digests(digest, params["mirrors"]) if params["digests"] else []
    unknown = plan.unknown(*wanted)
    for sentence in unknown:
        run.warn(sentence)
    programs = [{"name": item.name, "version": item.version, "source": item.source} for item in plan.programs(*wanted)]
    return {
        "changed": False,
        "charts": found.charts(),
        "images": found.images(),
        "programs": programs,
        "missing": missing,
        "unknown": unknown,
    }


def main() -> None:
    def listed(run: ModuleRun) -> Result:
        cluster = {"kubeconfig": None, "context": None}
        return reconcile(run, Helm.connect(run.run_program, dict(run.params) | cluster))

    run_host_module(listed, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
