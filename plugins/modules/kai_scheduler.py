#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_scheduler."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_scheduler
short_description: KAI Scheduler in a cluster
version_added: 0.1.0
description:
  - Installs, upgrades and removes KAI Scheduler by its Helm chart, in the cluster or virtual cluster of the kubeconfig.
  - What differs between releases, such as the chart's place, the values that have to be set, CRDs that have to be there, and what
    makes it ready, comes from a table of releases.
  - An upgrade brings the CRDs first, which helm does not, and restarts the scheduler where the release needs that.
  - Unfinished Helm releases, as a killed run leaves them, are repaired.
  - The chart is rendered before anything is written, so that values that it refuses change nothing.
  - A downgrade first keeps the queues in the Secret C(kubegpu-kai-export) in C(kube-system), and at its end writes those back that
    are not as they were. A run that was killed in between goes on from there.
  - A removal does not depend on the chart's own clean-up, which needs an image, does half of the work on many releases, and
    leaves webhooks behind that refuse every pod. What the clean-up does is done here, webhooks first.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  state:
    description:
      - V(present) installs or changes KAI Scheduler and waits until all of its parts are available.
      - V(absent) removes it and waits until it is gone, whether or not Helm knows of it.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - Version of KAI Scheduler, such as V(v0.16.8). A version that never existed or was retracted is refused, and one with a
        hazard that touches what is asked for, unless O(accept_hazards) names it.
      - Upstream supports no downgrade. For one, the newer release is removed and the older one installed, while queues, pod groups
        and pods stay. It is refused while there are queues on more levels than the older release schedules.
    type: str
  gpu_sharing:
    description:
      - Whether pods can ask for fractions of a GPU.
    type: bool
    default: false
  accept_hazards:
    description:
      - Names of hazards that are accepted. They are upstream's issues, and V(end-of-support). A refusal names the hazards that touch.
      - V(#1103), V(#1673) and V(#340) touch installations that share GPUs. V(#104) touches clusters with tenants of this collection.
        V(end-of-support) touches all, but a release that is installed already and whose support ends is only warned of.
      - Accepting one that does not touch is fine. What was accepted is noted on the namespace C(kai-scheduler).
    type: list
    elements: str
    default: []
  cdi:
    description:
      - Whether the device plugin hands GPUs out by CDI, for fractions of a GPU. KAI Scheduler finds out by itself only from
        NVIDIA's GPU operator. Releases that have no such setting are refused.
    type: bool
  purge:
    description:
      - With O(state=absent), also removes what users made, and what protects what runs. That is the CRDs with all queues, pod
        groups and topologies, and the reservations of shared GPUs.
    type: bool
    default: false
  timeout:
    description:
      - Seconds for the whole change, waits included.
    type: int
    default: 300
notes:
  - Images are upstream's, wherever the chart comes from, unless C(global.registry) in O(values) says otherwise.
extends_documentation_fragment:
  - kubegpu.tenancy._helm
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.kai_queues
  - module: kubegpu.tenancy.probe
"""

EXAMPLES = r"""
- name: Install KAI Scheduler with fractions of GPUs
  kubegpu.tenancy.kai_scheduler:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    version: v0.16.8
    gpu_sharing: true

- name: Take chart and images from a mirror, and spread pods instead of packing them
  kubegpu.tenancy.kai_scheduler:
    kubeconfig: /etc/kubegpu/dc1/team-research.yml
    version: v0.16.8
    chart_source: oci://registry.example/charts
    values:
      global:
        registry: registry.example/kai-scheduler
      scheduler:
        placementStrategy: spread

- name: Install a release that upstream corrects no more
  kubegpu.tenancy.kai_scheduler:
    kubeconfig: /etc/kubegpu/dc1/team-old.yml
    version: v0.15.3
    accept_hazards: [end-of-support]

- name: Remove it with everything users made in it
  kubegpu.tenancy.kai_scheduler:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
    state: absent
    purge: true
"""

RETURN = r"""
version:
  description: Version of KAI Scheduler.
  returned: when O(state=present)
  type: str
  sample: v0.16.8
known:
  description: Whether the table of releases knows the version. A newer one is treated as the newest known one.
  returned: when O(state=present)
  type: bool
hazards:
  description: What is known to go wrong with the version, each with the name that O(accept_hazards) takes. Also in diffs.
  returned: when O(state=present)
  type: list
  elements: str
  sample: ["#104: its pod webhook stops every pod of the cluster while it does not answer"]
accepted_hazards:
  description: Names of the hazards that touch what is asked for, and were accepted.
  returned: when O(state=present)
  type: list
  elements: str
  sample: []
upgrade_notes:
  description: What is known to happen between the installed version and O(version), and what is done about it. Also in diffs.
  returned: when O(state=present)
  type: list
  elements: str
  sample: ["helm brings no CRDs with an upgrade: they are applied first (#549)"]
steps:
  description: What was done, or would be in check mode, in that order, and why. Also in diffs.
  returned: when O(state=present), or something was removed
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
      description: How long it took. What it started may need more.
      type: float
      returned: not in check mode
  sample:
    - {step: apply the CRDs, why: helm installs them once and never changes them, seconds: 1.2}
    - {step: upgrade to v0.16.8, why: "as asked, with all values", seconds: 9.7}
values:
  description: Values given to the chart, each as a digest. What is true, false, null or empty stands as it is.
  returned: when O(state=present)
  type: dict
  sample: {global: {gpuSharing: true, registry: digest 0b61d2f3a4957c8e}}
seconds:
  description: How long it took until all parts were available, or gone.
  returned: success
  type: float
  sample: 31.4
last_seen:
  description: What was still missing, or still there, when time ran out.
  returned: when it did
  type: str
"""

from ..module_utils._engine.kai_scheduler import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, helm=True, required_if=[("state", "present", ("version",))])


if __name__ == "__main__":
    main()
