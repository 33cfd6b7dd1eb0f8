#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether pods get the GPUs that nodes offer, as an Ansible module."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_probe
short_description: See that a pod on each GPU node gets one GPU
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Starts one pod on each node that offers C(nvidia.com/gpu), all at once. Each asks for one GPU by RuntimeClass V(nvidia), lists
    what it sees with C(nvidia-smi -L), and ends.
  - A pod passes when it sees exactly one GPU, and one of its node's where those are known.
  - A node without a free GPU is not tried, which is neither a success nor a failure. What runs is not disturbed, but for some
    seconds the probe has a GPU of each node.
  - The pods live in a namespace of their own, which is removed in any case.
options:
  namespace:
    description:
      - Namespace that is created for the probe and removed after it. One that exists is refused, unless an earlier probe left it.
    type: str
    default: kubegpu-gpu-probe
  image:
    description:
      - The pods' image. Any with a shell and glibc will do, C(nvidia-smi) comes with the node's driver.
    type: str
    default: docker.io/library/debian:12.12-slim
  expected_gpus:
    description:
      - The GPUs of a node by its name, as the list of their UUIDs. A number, as M(kubegpu.tenancy.device_plugin) takes it, tells
        nothing here.
    type: dict
    default: {}
  timeout:
    description:
      - Seconds until the pods have to be done, and again until the namespace is empty.
    type: int
    default: 120
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  check_mode:
    details: Nothing is run in check mode. All checks are returned as not tried.
  diff_mode:
    support: none
  idempotent:
    details: Nothing is left in the cluster, so nothing ever counts as changed.
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

import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._device_plugin.status import offered
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import concluded, own_namespace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_gpu.plan import (
    NAME,
    NODE_NOTE,
    Object,
    crowded_out,
    manifest,
    outcome,
    why_not,
)


class Probe:
    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube) -> None:
        self.params = params
        self.kube = kube
        self.namespace: str = params["namespace"]
        self.start = time.monotonic()
        # By node.
        self.results: dict[str, Object] = {}

    def run(self, check_mode: bool) -> list[Object]:
        nodes = {node["metadata"]["name"]: node for node in self.kube.list("v1", "Node") if offered(node)}
        pods = self.kube.list("v1", "Pod")
        for name, node in nodes.items():
            if reason := "check mode" if check_mode else why_not(node, pods):
                self._note(name, "not_tried", reason)
        tried = [name for name in nodes if name not in self.results]
        if tried:
            with own_namespace(self.kube, self.namespace, self.params["timeout"]):
                self._observe(tried)
        return [self.results[name] for name in sorted(self.results)]

    def _observe(self, names: list[str]) -> None:
        for name in names:
            self.kube.create(manifest(self.namespace, name, self.params["image"]))
        try:
            wait_for("the pods to list their GPUs", lambda: self._look(names), self.params["timeout"], interval=0.5)
        except TenancyError as exc:
            if "last_seen" not in exc.details:
                raise
            for name in names:
                if name not in self.results:
                    self._note(name, "failed", exc.message)

    def _look(self, names: list[str]) -> tuple[bool | None, str]:
        pods = {pod["metadata"]["annotations"][NODE_NOTE]: pod for pod in self.kube.list("v1", "Pod", self.namespace)}
        seen = []
        for name in [name for name in names if name not in self.results]:
            if name not in pods:
                self._note(name, "failed", "somebody removed the pod")
                continue
            verdict, reason = outcome(pods[name], self._uuids(name))
            if verdict:
                self._note(name, verdict, reason)
            elif crowded_out(pods[name]) and (taken := self._taken(name)):
                self._note(name, "not_tried", taken)
            else:
                seen.append(f"{name}: {reason}")
        return (None, "; ".join(seen)) if seen else (True, "")

    def _taken(self, name: str) -> str:
        """Why there is no GPU for the pod, where others were faster."""
        node = self.kube.get("v1", "Node", name)
        return why_not(node, self.kube.list("v1", "Pod")) if node else "the node is gone"

    def _uuids(self, name: str) -> list[str]:
        known = self.params["expected_gpus"].get(name)
        return known if isinstance(known, list) else []

    def _note(self, name: str, verdict: str, reason: str) -> None:
        seconds = round(time.monotonic() - self.start, 1)
        self.results[name] = {"name": name, "verdict": verdict, "reason": reason, "seconds": seconds}


def run(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool) -> Object:
    probe = Probe(params, kube)
    return concluded(probe.run(check_mode), probe.start)


def main() -> None:
    module = kube_module(
        argument_spec={
            "namespace": {"type": "str", "default": NAME},
            "image": {"type": "str", "default": "docker.io/library/debian:12.12-slim"},
            "expected_gpus": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 120},
        }
    )
    try:
        module.exit_json(**run(module.params, Kube.connect(module), module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
