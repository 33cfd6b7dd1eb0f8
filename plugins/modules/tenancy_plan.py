# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is documentation only: the action plugin of the same name does the work, on the controller.

DOCUMENTATION = r"""
module: tenancy_plan
short_description: Read and check the desired state of a cluster
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Reads what the inventory says of a cluster, checks all of it before anything is touched, and returns it whole, with every key.
  - All problems are reported at once, each with the variable's path and what would be right.
  - Every variable whose name starts with C(kubegpu_) has to be a known one. They are listed in the collection's page
    C(docs/reference/inventory.md).
  - It runs on the controller and asks no cluster.
  - Where C(kubegpu_blueprint) names a blueprint, that gives what the inventory does not say. See the collection's page
    C(docs/how-to/many-clusters.md).
  - Versions that upstream says do not go together are refused, unless C(kubegpu_accept_combinations) names the combination.
    Combinations that upstream does not list are warnings.
  - Releases of KAI Scheduler with hazards that touch what is asked for are refused, unless C(accept_hazards) names these. That
    the support of a release has ended is a warning, because it may run already, and a refusal with O(running), which tells.
  - A queue whose GPU quota is 0 because none is written is a warning, where a pod could wait for it.
extends_documentation_fragment:
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
    details: The module changes nothing.
options:
  variables:
    description:
      - The variables of the desired state, by name. Those of the inventory host the task runs for, when omitted.
    type: dict
  installs:
    description:
      - Whether anything is going to be installed. A removal is refused for no hazard.
    type: bool
    default: true
  running:
    description:
      - What M(kubegpu.tenancy.tenancy_info) returned of the cluster, or an empty dictionary where there is none yet. With it,
        releases without support are refused where they do not run already. C(kubegpu_only) leaves the other tenants out of that.
    type: dict
  parts:
    description:
      - The tags of the playbook that runs the task, which has to have the tag C(always). C(--tags) and C(--skip-tags) that leave no part
        of it, or that look like a slip, are refused. No tags are, when omitted.
    type: list
    elements: str
seealso:
  - module: kubegpu.tenancy.tenant_nodes
"""

EXAMPLES = r"""
- name: Read the desired state of this inventory host
  kubegpu.tenancy.tenancy_plan:
  register: plan

- name: Check what a pull request would make of it
  kubegpu.tenancy.tenancy_plan:
    variables: "{{ lookup('ansible.builtin.file', 'group_vars/kubegpu_clusters.yml') | from_yaml }}"

- name: Check that everything could be made anew
  kubegpu.tenancy.tenancy_plan:
    running: {}

- name: Show the tenants with a scheduler of their own
  ansible.builtin.debug:
    msg: "{{ plan.cluster.tenants | selectattr('scheduler') | map(attribute='name') }}"
"""

RETURN = r"""
parts:
  description: Those of O(parts) that C(--tags) and C(--skip-tags) leave in the run.
  returned: success
  type: list
  elements: str
cluster:
  description:
    - The desired state, with every key. What was not given has its default or is empty.
  returned: success
  type: dict
  contains:
    blueprint:
      description:
        - The blueprint that the inventory names, with its digest, and the paths at which the inventory differs from it. Empty without one.
      type: dict
      sample:
        name: gpu-host-2026-11-23
        digest: sha256:d4b4f0…
        overridden: [device_plugin_version, team-ml.scheduler.version]
    provider:
      description: V(nvkind) or V(existing).
      type: str
    kubeconfig:
      description: Path of the administrator's kubeconfig on the cluster's host.
      type: str
    tenants_folder:
      description: Folder there for the tenants' kubeconfigs.
      type: str
    kubeconfig_dir:
      description: Folder on the controller for copies of all of them.
      type: str
    kubeconfig_proxy:
      description: Proxy through which the controller reaches the clusters. Empty without one.
      type: str
    charts:
      description: Where Helm charts come from. Empty for upstream.
      type: str
    platform:
      description:
        - What the cluster asks of all tenants. The values of their charts have it already.
      type: dict
      contains:
        runtime_class:
          description: RuntimeClass of pods with GPUs. Empty for none.
          type: str
        tolerations:
          description: Tolerations of everything of tenants.
          type: list
          elements: dict
        tenant_host:
          description: Host name of tenants' API servers, with C({tenant}) for the tenant's name. Empty where they are reached by an address.
          type: str
    workers:
      description: GPU devices of each worker of a cluster that is made. Null where it exists.
      type: list
      elements: int
    tenants:
      description: All tenants that are listed, and the temporary one.
      type: list
      elements: dict
      sample:
        - name: web
          trust: partial
          state: present
          gpu_nodes: {}
          vcluster: {version: 0.36.1, kubernetes_version: '', values: {}}
          oidc: {}
          sandbox: {}
          quota: {}
          network: {}
          scheduler: {}
          queues: []
          expires: ''
    only:
      description: Names of the tenants to act on. Empty for all of them.
      type: list
      elements: str
    selected:
      description: The tenants to act on, alike.
      type: list
      elements: dict
    shared_scheduler:
      description: The host cluster's own KAI Scheduler. Empty without one.
      type: dict
    shared_queues:
      description: Queues of the tenants that share it, one tree.
      type: list
      elements: dict
    shared_nodes:
      description: Label of the nodes of one of these tenants, with GPUs if any has. Empty without such tenants.
      type: dict
    metrics:
      description: The Prometheus of the host cluster that reads metrics, as C(kubegpu_metrics) describes it. Empty for none.
      type: dict
      sample: {provider: service_monitor, namespace: monitoring, labels: {release: kube-prometheus-stack}}
    usage:
      description: Where GPU-hours are read, as C(kubegpu_usage) describes it, without its token. Empty where nothing is said.
      type: dict
      sample: {}
    gateway:
      description: The address of the GPU host at which tenants are reached, as C(kubegpu_gateway) describes it. Empty for none.
      type: dict
      sample: {address: 10.0.0.5, allow: [10.20.0.0/16], host: gpu1.example, cluster_api: false}
    unlisted:
      description: What happens to what is not listed any more, V(keep) or V(remove).
      type: str
    accept_unenforced_network_policies:
      description: As in the inventory.
      type: bool
    accept_lost_pods:
      description: As in the inventory.
      type: bool
    accept_lost_volumes:
      description: As in the inventory.
      type: bool
    rehearsal:
      description:
        - What a change of KAI Scheduler needs, as role P(kubegpu.tenancy.kai_scheduler#role) takes it. Empty where it needs no verdict.
      type: dict
      sample: {verdicts: rehearsals, max_age: 30, accept_holds: []}
    backup:
      description:
        - Folder on the controller for backups of tenants, how many backups it keeps of each tenant, whether they are encrypted, the seconds for
          one or for a restore, and whether an upgrade, a reset and a removal need one.
      type: dict
      sample: {folder: ~/kubegpu-backups, keep: 7, encrypt: false, timeout: 600, required: false}
    accepted_hazards:
      description:
        - Hazards that touch what is asked of KAI Schedulers and were accepted, by tenant. Those of the shared one are by
          C(kubegpu_shared_scheduler).
      type: dict
      sample:
        team-old: ["end-of-support: upstream has corrected nothing in it since the end of 2026-06"]
    unsupported:
      description: That the support of a release has ended, alike, where it was not accepted and the release may run already.
      type: dict
      sample: {}
    accept_combinations:
      description: As C(kubegpu_accept_combinations) in the inventory.
      type: list
      elements: str
    combinations:
      description:
        - Combinations of versions that upstream does not list, the accepted ones, and the untested ones, which were neither accepted nor
          refused.
      type: dict
      sample:
        accepted: []
        untested: ["team-ml: kai-kubernetes: KAI Scheduler v0.14.7 is tested upstream with Kubernetes 1.31 to 1.35, and here it is v1.36 (SUPPORT.md)"]
defaults:
  description: What the blueprint says of variables that the inventory host does not have, by name.
  returned: success, without O(variables)
  type: dict
  sample: {device_plugin_version: 0.17.4}
role_variables:
  description:
    - Variables of this collection's roles that are set for the inventory host, such as C(kai_scheduler_timeout), by name.
  returned: success, without O(variables)
  type: dict
problems:
  description: Everything that is wrong with the desired state.
  returned: failure
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
      text: "kubegpu_tenants[0] (team-ml).trsut: unknown key. Did you mean trust? Allowed here: name, trust, state, gpu_nodes, vcluster, scheduler, queues."
"""
