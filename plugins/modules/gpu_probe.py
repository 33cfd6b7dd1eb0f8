#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.gpu_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_probe
short_description: Check that a pod on each GPU node gets one GPU
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Starts one pod on each node that offers C(nvidia.com/gpu), all at once. Each asks for one GPU by O(runtime_class), lists
    what it sees with C(nvidia-smi -L), and ends.
  - A pod passes when it sees exactly one GPU, and one of its node's where those are known.
  - A node without a free GPU is not tried, which is neither a success nor a failure. What runs is not disturbed, but for some
    seconds the probe has a GPU of each node.
  - Fails when a check fails.
options:
  namespace:
    default: kubegpu-gpu-probe
  image:
    description:
      - Image of the pods. Any with a shell and glibc will do, C(nvidia-smi) comes with the node's driver.
    default: docker.io/library/debian:12.12-slim
  expected_gpus:
    description:
      - The GPUs of a node by its name, as the list of their UUIDs. A number, as M(kubegpu.tenancy.device_plugin) takes it, is
        not compared here.
    type: dict
    default: {}
  runtime_class:
    description:
      - RuntimeClass of the pods. Empty for none, where NVIDIA's runtime is the nodes' default.
    type: str
    default: nvidia
  tolerations:
    description:
      - Tolerations of the pods. By default they tolerate everything, because nodes with GPUs are usually tainted.
      - A node with a taint that they do not tolerate is not tried.
    default:
      - operator: Exists
  timeout:
    default: 120
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._probe
  - kubegpu.tenancy._probe.image
  - kubegpu.tenancy._attributes
seealso:
  - module: kubegpu.tenancy.device_plugin
  - module: kubegpu.tenancy.kai_probe
"""

EXAMPLES = r"""
- name: See that pods get GPUs
  kubegpu.tenancy.gpu_probe:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml

- name: See that they get those of their node
  kubegpu.tenancy.gpu_probe:
    kubeconfig: /etc/kubegpu/dc1/cluster.yml
    expected_gpus:
      kubegpu-worker: [GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10]
"""

RETURN = r"""
results:
  description: One record for each node that offers GPUs.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: The node.
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed) or V(not_tried).
      type: str
      returned: always
    reason:
      description: The GPU's UUID where it passed, else what was seen.
      type: str
      returned: always
    seconds:
      description: Seconds until the verdict.
      type: float
      returned: always
  sample:
    - {name: kubegpu-worker, verdict: passed, reason: GPU-7a3c2d0e-6a5f-4d53-9a3e-2a4f7d6f8f10, seconds: 3.9}
    - {name: kubegpu-worker2, verdict: not_tried, reason: all of its 4 GPUs are in use, seconds: 0.1}
seconds:
  description: How long everything took, the removal of the pods included.
  returned: success
  type: float
  sample: 7.4
"""

from ..module_utils._common.run import Result, Run
from ..module_utils._kernel.module import run_module
from ..module_utils._probe.status import concluded
from ..module_utils._probe_gpu.lifecycle import Probe
from ..module_utils._probe_gpu.plan import IMAGE, NAME, Settings

ARGUMENT_SPEC = {
    "namespace": {"type": "str", "default": NAME},
    "image": {"type": "str", "default": IMAGE},
    "expected_gpus": {"type": "dict", "default": {}},
    "runtime_class": {"type": "str", "default": "nvidia"},
    "tolerations": {"type": "list", "elements": "dict", "default": [{"operator": "Exists"}]},
    "timeout": {"type": "int", "default": 120},
}


def reconcile(run: Run) -> Result:
    options = ("namespace", "image", "expected_gpus", "runtime_class", "tolerations")
    settings = Settings(**{option: run.params[option] for option in options})
    results = Probe(run.kube, settings, run.deadline).run(run.check_mode)
    return concluded(results, run.deadline.elapsed())


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
