#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.render."""

from __future__ import annotations

DOCUMENTATION = r"""
module: render
short_description: Write what site would apply for tenants as files, for Flux or for kubectl and Helm
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Writes a folder for each tenant into a folder of the controller. It has the namespace, the policies of the API server, chart and values of the
    virtual cluster and of the tenant's own scheduler, and the queues. They are what M(kubegpu.tenancy.tenants) would apply.
  - The same inventory, for the same minor version of the cluster's Kubernetes, gives the same files, byte for byte.
  - It reads the cluster, and changes nothing of it. What takes steps in an order is refused before anything is written, such as an older release of
    KAI Scheduler, an upgrade of vCluster over several minor versions, and a paused tenant. So are values that look like secrets.
  - Each file begins with a line that says who wrote it. A file with that line is removed once it is not needed any more. Other files
    stay, and one in the place of a file that is to be written is refused.
  - With a limit to some tenants, the files of others stay as they are. A tenant that is V(absent) has no files.
options:
  cluster:
    description:
      - The desired state, as M(kubegpu.tenancy.tenancy_plan) returns it.
    type: dict
    required: true
  folder:
    description:
      - Folder on the controller. It gets a folder for each cluster, and in that one for each tenant.
    type: path
    required: true
  name:
    description:
      - Name of the cluster's folder. It defaults to the inventory host.
    type: str
    default: ""
  format:
    description:
      - Who applies the files. With V(flux), Flux's C(HelmRelease), C(HelmRepository) and C(Kustomization) are among them.
      - With V(helm), each Helm release has a C(chart.yaml) and a C(values.yaml), for C(helm upgrade --install), and C(kubectl apply -k) applies
        the rest.
    type: str
    choices: [flux, helm]
    default: flux
  path:
    description:
      - Path of O(folder) in the repository that Flux reads. It counts for what stands inside of virtual clusters.
    type: str
    default: clusters
  source:
    description:
      - Name of Flux's C(GitRepository) for that repository, and of the namespace in which that is.
    type: str
    default: flux-system
  gatekeeper:
    description:
      - Also write constraints of Gatekeeper 3.17 or later, with the rules of the API server's policies. They refuse nothing, and Gatekeeper's audit
        reports by them. The API server enforces its policies in either case.
    type: bool
    default: false
  former:
    description:
      - The schedulers in the files of each tenant until now. The task fills it in.
    type: dict
    default: {}
  helm_binary:
    description:
      - The helm program, of Helm 3 or Helm 4.
    type: str
    default: helm
requirements:
  - kubernetes >= 24.2.0
  - helm >= 3.14
  - PyYAML
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.tenancy_plan
  - module: kubegpu.tenancy.tenants
"""

EXAMPLES = r"""
- name: Read the desired state of this inventory host
  kubegpu.tenancy.tenancy_plan:
  register: plan

- name: Write the files of its tenants into a clone of the repository that Flux reads
  kubegpu.tenancy.render:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    cluster: "{{ plan.cluster }}"
    folder: ~/fleet/clusters
"""

RETURN = r"""
folder:
  description: The cluster's folder on the controller.
  returned: success
  type: str
  sample: /home/me/fleet/clusters/gpu1
files:
  description: The files that the tenants have now, or would have, by their paths in that folder.
  returned: success
  type: list
  elements: str
  sample: [web/kustomization.yaml, web/namespace.yaml, web/policies.yaml, web/virtual-cluster.yaml]
"""

import typing as t

from ..module_utils._artifacts.plan import Installation
from ..module_utils._common.run import Result
from ..module_utils._engine.charts import charts_of
from ..module_utils._kernel.module import ClusterRun, run_module
from ..module_utils._render.facts import FORMATS
from ..module_utils._render.lifecycle import Place, render

ARGUMENT_SPEC: dict[str, t.Any] = {
    "cluster": {"type": "dict", "required": True},
    "folder": {"type": "path", "required": True},
    "name": {"type": "str", "default": ""},
    "format": {"type": "str", "choices": list(FORMATS), "default": "flux"},
    "path": {"type": "str", "default": "clusters"},
    "source": {"type": "str", "default": "flux-system"},
    "gatekeeper": {"type": "bool", "default": False},
    "former": {"type": "dict", "default": {}},
    "helm_binary": {"type": "str", "default": "helm"},
}


def reconcile(run: ClusterRun) -> Result:
    """Make the files."""
    params = run.params

    def template(item: Installation) -> str:
        _upstream, chart = charts_of(item)
        return run.helm.template(item.release, item.namespace, chart, item.values)

    path = f"./{params['path'].strip('./')}/{params['name']}"
    place = Place(params["format"], path, params["source"], params["gatekeeper"])
    return run.result(files=render(run.kube, params["cluster"], place, params["former"], template))


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
