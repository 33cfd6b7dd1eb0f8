#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: probe
short_description: Check by pods what a cluster does, or what a tenant gets of it
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Runs pods in a namespace of their own, judges what happens to them, and removes them with the namespace, also after a failure. What a probe
    that was killed left is removed by the next one.
  - The pods satisfy the pod security standard V(restricted) and have small limits.
  - Fails when a check fails.
options:
  kind:
    description:
      - What is checked.
      - V(web) serves a web page with a random text by a Deployment, and fetches it from another pod through its Service's DNS name. What it
        shows to work are scheduling, image pulls, the cluster's DNS and its Services.
      - V(gpu) starts a pod on each node that offers C(nvidia.com/gpu), all at once. Each asks for one GPU, lists what it sees with
        C(nvidia-smi -L), and ends. It has to see exactly one, and one of its node's where those are known. A node without a free GPU is not
        tried. What runs is not disturbed, but for some seconds the probe has a GPU of each node.
      - V(image_pull) starts a pod for each of O(images), all at once, on a node that the cluster's default scheduler chooses. An image passes once
        it is there, even if its container fails then. One that a node has already passes without a registry being asked, unless its tag is
        C(latest). Where a registry asks for credentials, the image is not tried. The pods have none but those of the nodes, and an installation
        may bring its own.
      - V(network_policy) finds out whether network policies are enforced, because the API server takes them whether or not something enforces
        them. Clients keep asking a server by its address, one on the server's node, and another one on a second node where two take the pods.
        Without a policy they have to reach it. With one that forbids it they must stop to, and without it reach it again.
      - That policies are not enforced is no failure. The kind V(network_policy) fails where it cannot be found out, above all when the server is
        not reached without any policy.
      - V(connectivity) checks that the services which a tenant's network lets through are reached. For each service in O(network.egress), a pod
        of the tenant connects to a ready pod of the service at all its ports. For each service in O(network.ingress), a pod with the service's
        namespace and labels connects to a pod of the tenant. On the host cluster it lives for seconds. No controller adopts it and no Service
        sends it requests, because it is owned by its namespace and never ready. That nothing else gets through is the network policies' part.
      - V(sandbox) starts a pod in O(runtime_class), in the tenant's namespace of the host cluster, that says which kernel it sees, and compares
        that with its node's by boot ID, or by release where the kernel has none. A RuntimeClass of any name whose handler is plain runc fails. All
        pods of the tenant have to run in O(runtime_class), too.
      - V(kai_scheduling) runs small pods in the queues of KAI Scheduler and checks where they are placed and what they see, because an available
        scheduler is not yet one that schedules. Pods start only where GPUs are free and queues are below their limits, with the lowest priority,
        so that no one is evicted for them. A check that lacks free capacity is reported as not tried, never as passed.
      - V(kai_policies) runs pods in queues of its own and checks that KAI Scheduler divides GPUs as its policies say. Its pods are evicted on
        purpose. No other pods may be, so a check is tried only while no other pod holds or waits for a GPU of this scheduler on these nodes, and
        its queues are limited to GPUs that are free.
      - V(volcano_scheduling) runs gangs by Jobs of Volcano. In each queue, one has to start whole. Of one that has a pod which fits nowhere, and
        of one with more GPUs than its queue's limit, nothing may start. The latter is tried only where so many GPUs are free.
      - V(shared_scheduler) runs pods in a tenant, in its own queue of the host cluster's KAI Scheduler, and compares what the tenant sees with
        what the host cluster does. Each pod has to see one GPU, to be placed by that scheduler, and to count in that queue. It also creates pods
        that the host cluster's policies have to refuse, and expects an event in the tenant that says why. What needs a GPU is tried only while
        one of the tenant's nodes, its queue and its quota have one left. Of a tenant that shares nodes alone, only V(devices) can be checked.
      - An option that a kind does not take is refused.
    type: str
    choices: [web, gpu, image_pull, network_policy, connectivity, sandbox, kai_policies, shared_scheduler, kai_scheduling, volcano_scheduling]
    required: true
  tenant:
    description:
      - For the kinds V(connectivity), V(sandbox) and V(shared_scheduler), which need it, the name of the tenant.
    type: str
  tenant_kubeconfig:
    description:
      - For the kinds V(connectivity) and V(shared_scheduler), which need it, the kubeconfig of the tenant's administrator. O(kubeconfig) is that of
        its host cluster.
    type: path
  network:
    description:
      - For the kind V(connectivity), which needs it, services of the host cluster that the tenant's network policies let through.
  namespace:
    description:
      - Namespace of the pods. It is made for the probe, and emptied and deleted in any case.
      - One that exists is refused, unless an earlier probe left it.
      - All kinds take it but V(sandbox), whose pod is in the tenant's own.
      - By default V(kubegpu-web-probe) for the kind V(web), V(kubegpu-gpu-probe) for V(gpu), V(kubegpu-image-probe) for V(image_pull),
        V(kubegpu-network-probe) for V(network_policy), V(kubegpu-services-probe) for V(connectivity), V(kai-probe) for V(kai_scheduling),
        V(kai-policy-probe) for V(kai_policies), V(volcano-probe) for V(volcano_scheduling), V(kubegpu-shared-probe) for V(shared_scheduler).
    type: str
  image:
    description:
      - Image of the pods, by default V(docker.io/library/busybox:1.37.0), but V(docker.io/library/debian:12.12-slim) for the kind V(gpu). The kind
        V(image_pull) takes O(images) instead.
      - The kinds V(web) and V(network_policy) need C(sh), C(httpd) and C(wget) as busybox has them.
      - The kind V(connectivity) needs C(sh), C(httpd) and C(nc) as busybox has them. The kind V(sandbox) needs C(sh), C(uname) and C(cat).
      - The kind V(gpu) needs C(sh) and the GNU C library, because C(nvidia-smi) comes with the node's driver. The kinds V(kai_scheduling) and
        V(shared_scheduler) need the same on real GPUs, V(kai_policies) and V(volcano_scheduling) need C(sh) alone.
    type: str
  images:
    description:
      - For the kind V(image_pull), which needs them, the images by name. M(kubegpu.tenancy.artifacts_info) lists the images of the desired state.
    type: list
    elements: str
  tolerations:
    description:
      - Tolerations of the pods, by default none.
      - Pods of the kind V(gpu) tolerate everything by default, because nodes with GPUs are usually tainted. A node with a taint that they do not
        tolerate is not tried.
    type: list
    elements: dict
  scheduler_name:
    description:
      - The scheduler that has to place the pods, as pods name it. By default V(default-scheduler) for the kind V(web), V(kai-scheduler) for the
        kinds V(kai_scheduling), V(kai_policies) and V(shared_scheduler). Other kinds do not take it.
    type: str
  queues:
    description:
      - For the kinds V(web), V(kai_scheduling) and V(shared_scheduler), the tree of queues of KAI Scheduler, as M(kubegpu.tenancy.kai_queues) takes
        it. By default empty. Only names matter, limits are the cluster's.
      - The pods of the kinds V(web) and V(shared_scheduler) are submitted to the first leaf. Without one, the checks V(gpu) and V(fraction) of
        V(shared_scheduler) are not tried.
      - The kind V(kai_scheduling) probes all leaves; where the tree is empty, all leaves in the cluster.
      - The kind V(volcano_scheduling) takes queues as M(kubegpu.tenancy.volcano_queues) does. Without one, it uses Volcano's queue C(default).
    type: list
    elements: dict
  checks:
    description:
      - For the kinds V(kai_scheduling), V(kai_policies) and V(shared_scheduler), what to check. By default all checks of the kind.
      - Kind V(kai_scheduling). V(cpu) runs a pod without a GPU in each leaf, V(gpu) a pod with one GPU, which must see exactly one.
      - V(gang) runs two pods in each leaf that may only start together. V(gang_too_large) does so with a second pod that can never start, so that
        the first must not either.
      - V(over_limit) asks in each leaf for more GPUs than its limit, which must stay pending for that reason.
      - V(fraction), V(quarters), V(gpu_memory) and V(burst) run pods that share GPUs, in one leaf. KAI Scheduler must be installed with GPU
        sharing. Each GPU must be reserved for the pods that share it and have no other owner, none may be given out more than
        once, and pod groups and queue must count as allocated what the pods have.
      - What such a check says ends with whether memory is enforced, that is, whether nvidia-smi in each pod shows no more than its part of the
        node's label C(nvidia.com/gpu.memory). No pod tries to take more. Where memory is not enforced, the check fails only if KAI Scheduler's
        Config asks for limits of memory, as C(gpu_memory_enforced) in an inventory does.
      - V(fraction) runs 0.5, 0.25 and 0.25 of a GPU, one pod after the other, which must share one; V(quarters) four pods with 0.25.
      - V(gpu_memory) runs two pods that ask by annotation for half of the memory of a GPU, which must share one. Nodes must have the
        label C(nvidia.com/gpu.memory).
      - V(burst) runs four to ten pods with half a GPU at once, as many as fit into the free GPUs, of which there must be two. It is
        judged when all of them have run for five seconds.
      - With every check, what the scheduler and the operator logged meanwhile is searched for known causes of trouble, such as a
        missing CRD, a lost authorisation, or a webhook that does not answer, and KAI Scheduler's pods for images that do not come and
        for lack of memory. Where a log cannot be read, that check, V(logs), counts as not tried.
      - Kind V(kai_policies). V(reclaim) has a queue without quota use all of the check's GPUs, and one with quota take one back.
      - V(preemption) has a pod of a higher class take the place of one of a lower class in its queue.
      - V(fair_share) has two queues without quota ask for all GPUs, which have to be divided by their over-quota weights, 1 to 3.
      - V(elastic) takes one pod from a group that needs fewer than it has. The others have to run on.
      - V(roles) has two workers wait for their leader, without which their group must not start.
      - V(job) has a Job wait whose pods have to start together and do not fit, and run where they do. It needs KAI Scheduler 0.14.1 or later.
      - V(packing) places two pods, on one node or on two, as the scheduler's placement strategy says. It needs two nodes with two GPUs each.
      - V(topology) has a group that has to run within one node wait where no node has room for it, and run where one has. It needs
        KAI Scheduler 0.12 or later, and two nodes with GPUs that no other pod holds.
      - Kind V(shared_scheduler). V(queue) has a pod name a queue that is not the tenant's, and V(devices) a pod ask to see all GPUs of its
        node, which the host cluster has to refuse, and the tenant to be told by an event. V(gpu) runs a pod with a whole GPU. V(fraction) runs
        two with half a GPU each, one after the other, which have to share one that is reserved for them, or be on GPUs that others share.
    type: list
    elements: str
  accept_hazards:
    description:
      - For the kinds V(kai_scheduling) and V(shared_scheduler), hazards of the release that are accepted, by the number of upstream's issue. By
        default none.
      - With V(#1103), pods that share a GPU that is not reserved any more, and so free for others, have the verdict V(accepted), which
        names that GPU and does not fail. Other names change nothing here.
    type: list
    elements: str
  expected_gpus:
    description:
      - For the kind V(gpu), the GPUs of a node by its name, as the list of their UUIDs. A number, as M(kubegpu.tenancy.device_plugin) takes it,
        is not compared here. By default no node's are known.
    type: dict
  gpu_resource:
    description:
      - For the kinds V(kai_scheduling), V(kai_policies) and V(shared_scheduler), name of the extended resource. By default V(nvidia.com/gpu).
    type: str
  runtime_class:
    description:
      - For the kinds V(gpu), V(kai_scheduling), V(kai_policies) and V(shared_scheduler), RuntimeClass of the pods with GPUs, by default V(nvidia).
        Empty for none, where NVIDIA's runtime is the nodes' default.
      - Required for the kind V(sandbox), the RuntimeClass in which all pods of the tenant run.
    type: str
  node_selector:
    description:
      - For the kinds V(kai_scheduling) and V(kai_policies), labels of the nodes that the pods may run on, each with its value. By default all
        nodes.
      - In a host cluster it keeps the pods away from nodes of tenants whose own scheduler gives their GPUs out at the same time.
    type: dict
  namespace_labels:
    description:
      - For the kinds V(kai_scheduling) and V(kai_policies), labels of O(namespace), for a KAI Scheduler that only serves namespaces with certain
        labels (C(global.namespaceLabelSelector) in its values). By default none.
    type: dict
  timeout:
    description:
      - Seconds for the whole probe, waits included. Where time is up, emptying the namespace may take 30 seconds more.
      - By default 90 for the kind V(web), 120 for V(gpu), 300 for V(image_pull), 180 for V(network_policy), 120 for V(connectivity), 120 for
        V(sandbox), 240 for V(kai_scheduling), 300 for V(kai_policies), 120 for V(volcano_scheduling),
        120 for V(shared_scheduler).
      - Checks of the kind V(kai_scheduling) that start together may use half of what is left while others wait. Each check of the kinds
        V(kai_policies) and V(shared_scheduler) has an equal part of what those before it left.
    type: int
  policy_timeout:
    description:
      - For the kind V(network_policy), seconds of O(timeout) that a policy gets to take effect, and again to lose it when it is removed. By
        default 30. Where fewer are left when the pods run, the probe fails.
    type: int
  max_age:
    description:
      - For the kind V(kai_scheduling), seconds. The results are recorded in the ConfigMap C(kubegpu-probe) beside KAI Scheduler. When the last
        record is no older, all of it passed or was accepted, it had the same options, and queues, nodes and KAI Scheduler's own pods are as they
        were then, its results are returned and nothing is run. With V(0), the checks are always run.
      - Without it, the checks are always run, and nothing is recorded. What is recorded in a virtual cluster can be changed by its administrator,
        so M(kubegpu.tenancy.tenants) records what it verified on the host cluster.
    type: int
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._network
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    details: Nothing is run in check mode. All checks are returned as not tried, and RV(enforced) is null.
  diff_mode:
    support: none
  idempotent:
    details: Nothing is left in the cluster but the record of the kind V(kai_scheduling), which does not count as a change.
"""

EXAMPLES = r"""
- name: See a web page served in the tenant's cluster
  kubegpu.tenancy.probe:
    kind: web
    kubeconfig: /etc/kubegpu/dc1/web.yml

- name: See one served by pods that the host cluster's KAI Scheduler places
  kubegpu.tenancy.probe:
    kind: web
    kubeconfig: /etc/kubegpu/dc1/team-vision.yml
    scheduler_name: kai-scheduler
    queues: [{name: vision, children: [{name: training}]}]

- name: See that pods get GPUs, and those of their node
  kubegpu.tenancy.probe:
    kind: gpu
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    expected_gpus:
      kubegpu-worker: [GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10]

- name: List what the desired state needs
  kubegpu.tenancy.artifacts_info:
    cluster: "{{ plan.cluster }}"
  register: needed

- name: See that the cluster can pull all of it
  kubegpu.tenancy.probe:
    kind: image_pull
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    images: "{{ needed.images | rejectattr('optional') | map(attribute='image') }}"

- name: Find out whether tenants can be kept apart by network policies
  kubegpu.tenancy.probe:
    kind: network_policy
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
  register: policies

- name: Refuse to go on where they cannot
  ansible.builtin.assert:
    that: policies.enforced

- name: Check that the team reaches the registry, and monitoring the team
  kubegpu.tenancy.probe:
    kind: connectivity
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    tenant: team-ml
    tenant_kubeconfig: /etc/kubegpu/dc1/tenants/team-ml.yml
    network:
      egress:
        - {name: registry, namespace: registry, labels: {app: registry}, ports: [5000]}
      ingress:
        - {name: monitoring, namespace: monitoring, ports: [9400]}

- name: Check that the team's pods do not see the nodes' kernel
  kubegpu.tenancy.probe:
    kind: sandbox
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    tenant: team-x
    runtime_class: kata

- name: Check that the team's queues work
  kubegpu.tenancy.probe:
    kind: kai_scheduling
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    queues: "{{ kubegpu_tenants[0].queues }}"

- name: Check that every leaf gives a whole GPU, on real ones
  kubegpu.tenancy.probe:
    kind: kai_scheduling
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    checks: [gpu]
    image: docker.io/library/ubuntu:24.04

- name: Look for the lost reservations of a release that is known for them, and go on
  kubegpu.tenancy.probe:
    kind: kai_scheduling
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    checks: [burst]
    accept_hazards: ["#1103"]

- name: See whether quotas hold before teams move in
  kubegpu.tenancy.probe:
    kind: kai_policies
    kubeconfig: /etc/kubegpu/dc1/tenants/team-ml.yml
    checks: [reclaim, fair_share]

- name: Check that gangs start whole or not at all
  kubegpu.tenancy.probe:
    kind: volcano_scheduling
    kubeconfig: /etc/kubegpu/dc1/tenants/team-hpc.yml
    queues:
      - {name: weather, gpu: {quota: 8, limit: 12}}

- name: Check what a tenant gets, and what it is kept from, on what it shares with others
  kubegpu.tenancy.probe:
    kind: shared_scheduler
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    tenant: team-vision
    tenant_kubeconfig: /etc/kubegpu/kubegpu/tenants/team-vision.yml
    queues:
      - {name: vision, gpu: {quota: 2, limit: 4}}
"""

RETURN = r"""
results:
  description: One record for each check.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description:
        - The check.
        - Of the kind V(web), V(page) is the web page through its Service, V(scheduler) the scheduler of the pods.
        - Of the kind V(gpu), the node. The reason is the GPU's UUID where it passed.
        - Of the kind V(image_pull), the image. The reason is the node where it passed.
        - Of the kind V(network_policy), the path between two pods, V(same_node) or V(across_nodes).
        - Of the kind V(connectivity), direction and name of the service. One without a pod is not tried.
        - Of other kinds, one of O(checks), or V(logs).
      type: str
      returned: always
    queue:
      description: The queue. Empty for V(logs), where no pod names one, and for the kind V(kai_policies), whose queues are the probe's own.
      type: str
      returned: for the kinds V(kai_scheduling), V(kai_policies) and V(shared_scheduler)
    verdict:
      description: V(passed), V(failed), V(not_tried), or V(accepted), which is what O(accept_hazards) says. Of the kind V(network_policy),
        V(enforced), V(unenforced) or V(not_tried).
      type: str
      returned: always
    reason:
      description: What was seen, or what the check needs.
      type: str
      returned: always
    seconds:
      description: Seconds until the verdict. Of the kind V(network_policy), since the policy was made.
      type: float
      returned: always
  sample:
    - {name: page, verdict: passed, reason: fetched through Service kubegpu-web-probe, seconds: 3.9}
    - {name: scheduler, verdict: passed, reason: default-scheduler, seconds: 3.9}
    - {name: kubegpu-worker2, verdict: not_tried, reason: all of its 4 GPUs are in use, seconds: 0.1}
seconds:
  description: How long everything took, the removal of the pods included.
  returned: success, and when a check failed
  type: float
  sample: 7.4
enforced:
  description: Whether network policies are enforced on all paths that were tried. Null in check mode.
  returned: success of the kind V(network_policy)
  type: bool
  sample: true
at:
  description: When the checks were run, in UTC.
  returned: for the kind V(kai_scheduling), when they were run
  type: str
  sample: "2026-11-21T12:30:00Z"
recorded:
  description: Whether the results are those of an earlier probe, as O(max_age) allows.
  returned: success of the kind V(kai_scheduling)
  type: bool
"""

from ..module_utils._engine.probe import ARGUMENT_SPEC, LEAST, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
