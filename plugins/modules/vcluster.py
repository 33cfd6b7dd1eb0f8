#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.vcluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vcluster
short_description: Virtual cluster of a tenant
version_added: 0.1.0
description:
  - Creates, changes and removes a virtual cluster in a namespace of its own, with vCluster's chart and its open source image.
  - It is ready when its API server answers an authenticated request at the address that clients will use, not when a pod says so.
    Where the kubeconfig of the host cluster names a proxy, the request goes through that.
  - Values that the chart accepts but the control plane dies of, features that need a licence, versions known to be bad and
    upgrades that are not supported upstream are refused before anything is touched.
  - Unfinished Helm releases, as a killed run leaves them, are repaired.
  - Where the client certificate in the Secret C(vc-NAME) has expired, the control plane is restarted, because vCluster renews
    certificates when it starts. Versions before 0.34 may not, and have to be upgraded then.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) creates or changes the virtual cluster and waits until it is ready.
      - V(absent) removes it with its namespace, volumes and cluster-scoped objects, and waits until they are gone.
      - V(paused) ends its control plane and all of its pods, and keeps its data. Afterwards controllers in it make their pods again,
        but pods without a controller are lost. They are named, and have to be accepted by O(accept_lost_pods).
      - V(present) starts a paused one again. That needs no other option.
    type: str
    choices: [present, absent, paused]
    default: present
  name:
    description:
      - Name of the tenant, of its virtual cluster and of the Helm release.
    type: str
    required: true
  namespace:
    description:
      - Namespace on the host cluster, which holds this virtual cluster only. It defaults to V(tenant-NAME).
      - It is created with a label of this collection. A namespace without that label is never touched.
    type: str
  version:
    description:
      - Version of vCluster's chart and image. For a new virtual cluster it defaults to V(0.36.1).
      - An upgrade over several minor versions goes over each of them, by the newest patch among the charts of O(chart_source), or by the newest
        one of upstream that was known. After each, the module waits until clients can use the virtual cluster.
      - This option and O(kubernetes_version), O(own_scheduler), O(node_selector), O(host_scheduler), O(gpu_quota), O(quota),
        O(network), O(trust), O(expires) and O(values) describe the virtual cluster together. Where none of them is given, one that exists stays as it is.
        Where any of them is given, the others have the defaults that they have for a new one.
    type: str
  force_version:
    description:
      - Whether to downgrade vCluster or its Kubernetes, or to skip a minor version, which upstream does not test.
    type: bool
    default: false
  keep_volumes:
    description:
      - With O(state=absent), whether to keep the namespace and the volumes in it. O(state=present) finds its data there again.
    type: bool
    default: false
  accept_lost_pods:
    description:
      - With O(state=paused), whether pods that no controller brings back may be lost. Pods that have ended do not count.
    type: bool
    default: false
  kubernetes_version:
    description:
      - Kubernetes version of the virtual cluster, such as V(v1.35.4). It defaults to the chart's.
    type: str
  own_scheduler:
    description:
      - Whether pods are placed by a scheduler inside the virtual cluster, which another scheduler installed there needs.
      - Otherwise the host cluster's scheduler places them, as it does in a new virtual cluster by default.
    type: bool
  node_selector:
    description:
      - Labels of the host's nodes that the virtual cluster sees and uses.
      - When empty, the virtual cluster sees all nodes if O(own_scheduler=true), and none of the real ones otherwise.
      - Virtual clusters do not see each other's GPUs as taken. Nodes on which two of them would book the same ones are refused.
    type: dict
  host_scheduler:
    description:
      - A scheduler of the host cluster, other than its default one, that the tenant's pods name. V(kai) is KAI Scheduler.
      - Objects on the host get no owner then, because KAI follows owners and may not read those of vCluster, and the namespace gets the
        label C(kubegpu.tenancy/scheduler=kai), to which a KAI Scheduler can be limited by C(global.namespaceLabelSelector).
      - A ValidatingAdmissionPolicy of the host cluster keeps the tenant's pods to O(host_queues), so that their limits bound what the
        tenant holds. Kubernetes 1.30 or later is needed for it.
    type: str
    choices: [kai]
  host_queues:
    description:
      - With O(host_scheduler), the tenant's tree of queues there, as M(kubegpu.tenancy.kai_queues) takes it. Its pods may use the leaves.
    type: list
    elements: dict
    default: []
  gpu_sharing:
    description:
      - Whether the tenant's pods may ask for part of a GPU, of O(host_scheduler) or of a KAI Scheduler of the tenant's own.
      - A tenant of O(trust=partial) with O(gpu_quota), a scheduler of its own and without this gets a ValidatingAdmissionPolicy of the host
        cluster that keeps its pods from seeing GPUs that they did not ask for. Kubernetes 1.30 or later is needed for it. With this, nothing
        keeps them from it, because the tenant itself can write what tells a pod which GPU it shares.
    type: bool
    default: false
  gpu_quota:
    description:
      - GPU devices that the tenant's pods hold at most, by a quota of the host cluster, and with it the quotas of O(trust=partial).
      - Virtual clusters with schedulers of their own share a node only where their quotas fit on it together.
    type: int
  quota:
    description:
      - Bounds of the tenant's namespace by their names in a ResourceQuota, such as C(count/pods), in place of those of O(trust=partial).
        Given with O(trust=high), the others of these bounds hold, too.
      - They hold for everything in the namespace, the control plane and a KAI Scheduler of the tenant's own among it. What is less than
        the control plane needs is refused.
    type: dict
  sandbox:
    description:
      - RuntimeClass in which all pods of the tenant run on the host cluster, in place of a class that they name, such as V(kata) or V(gvisor).
        Empty for none.
      - A ValidatingAdmissionPolicy of the host cluster refuses pods of the tenant's accounts in another class. Kubernetes 1.30 or later is
        needed for it. The pods of the control plane, which run no code of the tenant, stay outside. So do pods that are older than this,
        until their controllers make them again; M(kubegpu.tenancy.probe) names those.
    type: str
  accept_unenforced:
    description:
      - Whether a profile that rests on network policies is accepted on a cluster whose network does not enforce them, which a short probe
        finds out. The tenant is then recorded as V(unenforced), and never as protected.
    type: bool
    default: false
  probe_image:
    description:
      - Image of that probe's pods, with busybox's C(sh), C(httpd) and C(wget). It defaults to that of
        M(kubegpu.tenancy.probe).
    type: str
  trust:
    description:
      - Isolation profile. V(high), the default of a new virtual cluster, adds nothing.
      - V(partial) bounds the tenant's namespace by a quota and a limit range and holds its pods to the pod security standard
        V(baseline). Containers without limits of their own get 4 CPUs and 4Gi.
      - V(zero) is V(partial) with the pod security standard V(restricted).
      - Both separate networks where the cluster's network enforces policies, and are refused elsewhere, unless O(accept_unenforced).
      - No profile is a boundary against a user who breaks out of a container, because tenants share kernels.
    type: str
    choices: [high, partial, zero]
  expires:
    description:
      - Age after which the tenant is not needed any more, such as V(30m), V(2h) or V(7d), from the creation of its namespace.
      - It is an annotation of the namespace, no more. The playbook C(kubegpu.tenancy.expire) removes tenants that are older.
    type: str
  values:
    description:
      - Values for the chart, merged over those of this module.
      - Digests of them are shown, also in diffs. A digest confirms a guess, so what is secret belongs in a Secret of Kubernetes that they name.
    type: dict
    default: null
  timeout:
    description:
      - Seconds for the whole change, waits included.
    type: int
    default: 300
notes:
  - With a Service of type C(ClusterIP) in O(values) nothing outside the cluster can ask the API server. The readiness of its pod
    has to do then.
extends_documentation_fragment:
  - kubegpu.tenancy._helm
  - kubegpu.tenancy._network
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.vcluster_kubeconfig
"""

EXAMPLES = r"""
- name: Give the team a virtual cluster with its own scheduler on its own nodes
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    own_scheduler: true
    node_selector:
      tenant.kubegpu.tenancy/team-ml: "true"

- name: Hold a team to a quota, pin Kubernetes and place the control plane on infrastructure nodes
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: web
    trust: partial
    quota:
      requests.cpu: "16"
      count/pods: 60
    kubernetes_version: v1.35.4
    values:
      controlPlane:
        coredns:
          deployment:
            image: registry.example/coredns/coredns:1.14.2
        statefulSet:
          scheduling:
            nodeSelector:
              node-role.example/infra: "true"

- name: Free what the team holds over the holidays
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    state: paused

- name: Start it again as it was
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml

- name: Remove the tenant and everything of it
  kubegpu.tenancy.vcluster:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    name: team-ml
    state: absent
"""

RETURN = r"""
namespace:
  description: Namespace of the virtual cluster on the host cluster.
  returned: success
  type: str
  sample: tenant-team-ml
version:
  description: Version of vCluster.
  returned: when O(state=present)
  type: str
  sample: 0.36.1
network_policies:
  description: V(enforced) or V(unenforced), as a probe saw it. Null where the tenant has none, or that is not known.
  returned: when O(state=present)
  type: str
  sample: enforced
kubernetes_version:
  description: Version the virtual cluster's API server reports.
  returned: when O(state=present), not in check mode, and clients outside the cluster can reach it
  type: str
  sample: v1.36.0
server:
  description: Address of the virtual cluster's API server.
  returned: when O(state=present), not in check mode, and clients outside the cluster can reach it
  type: str
  sample: https://172.18.0.3:31234
lost_pods:
  description:
    - Pods that no controller brings back after the pause, as namespace and name in the virtual cluster.
    - When the task fails because of them, nothing was changed.
  returned: when O(state=paused)
  type: list
  elements: str
  sample: [default/notebook]
steps:
  description: What was done, in order. In check mode, what would be done.
  returned: when anything was done
  type: list
  elements: dict
  contains:
    step:
      description: What was done.
      type: str
    why:
      description: What made it necessary.
      type: str
    seconds:
      description: How long it took. Not there in check mode.
      type: float
  sample:
    - {step: create namespace tenant-team-ml, why: it does not exist, seconds: 0.1}
    - {step: install the Helm release team-ml with vCluster 0.36.1, why: it is not installed, seconds: 1.9}
seconds:
  description: Seconds the change took, waits included.
  returned: success
  type: float
  sample: 31.4
problems:
  description: Everything that is wrong with what was asked for, each with its path. Nothing was changed then.
  returned: when options were refused
  type: list
  elements: dict
  contains:
    code:
      description: Kind of the problem, for programs.
      type: str
    text:
      description: The problem as a sentence, which begins with its place.
      type: str
  sample:
    - code: unknown-key
      text: "values.controlPlane.statefulset: the chart has no such key. Did you mean statefulSet?"
"""

from ..module_utils._engine.vcluster import ARGUMENT_SPEC, LEAST, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST, helm=True)


if __name__ == "__main__":
    main()
