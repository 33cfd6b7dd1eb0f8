#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.web_probe."""

from __future__ import annotations

DOCUMENTATION = r"""
module: web_probe
short_description: Prove that a cluster runs ordinary workloads
version_added: 0.1.0
description:
  - Serves a web page with a random text by a Deployment, fetches it from another pod through its Service's DNS name, in a namespace
    of its own that is deleted at the end.
  - What it proves are scheduling, by the default scheduler or the one that is named, image pulls, the cluster's DNS and its Services.
  - Its pods satisfy the pod security standard V(restricted) and have small limits.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  namespace:
    description:
      - Namespace that is made for the workload and deleted.
    type: str
    default: kubegpu-web-probe
  image:
    description:
      - An image with busybox's C(sh), C(httpd) and C(wget).
    type: str
    default: docker.io/library/busybox:1.37.0
  scheduler_name:
    description:
      - The scheduler that has to place the pods, as pods name it.
    type: str
    default: default-scheduler
  queues:
    description:
      - Tree of queues of KAI Scheduler, as M(kubegpu.tenancy.kai_queues) takes it. The pods are submitted to its first leaf.
    type: list
    elements: dict
    default: []
  timeout:
    description:
      - Seconds until the page has to be fetched, and again until the namespace is empty.
    type: int
    default: 90
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
  - module: kubegpu.tenancy.kai_probe
  - module: kubegpu.tenancy.network_policy_probe
"""

EXAMPLES = r"""
- name: See a web page served in the tenant's cluster
  kubegpu.tenancy.web_probe:
    kubeconfig: /etc/kubegpu/dc1/web.yml

- name: See one served by pods that the host cluster's KAI Scheduler places
  kubegpu.tenancy.web_probe:
    kubeconfig: /etc/kubegpu/dc1/team-vision.yml
    scheduler_name: kai-scheduler
    queues: [{name: vision, children: [{name: training}]}]
"""

RETURN = r"""
results:
  description: One record for each check.
  returned: success, and when a check failed
  type: list
  elements: dict
  contains:
    name:
      description: The check. V(page) is the web page through its Service, V(scheduler) the scheduler of the pods.
      type: str
      returned: always
    verdict:
      description: V(passed), V(failed) or V(not_tried).
      type: str
      returned: always
    reason:
      description: What was seen.
      type: str
      returned: always
    seconds:
      description: Seconds until the verdict.
      type: float
      returned: always
  sample:
    - {name: page, verdict: passed, reason: fetched through Service kubegpu-web-probe, seconds: 3.9}
    - {name: scheduler, verdict: passed, reason: default-scheduler, seconds: 3.9}
seconds:
  description: How long everything took, the removal of the workload included.
  returned: success
  type: float
  sample: 7.4
"""

import secrets
import time
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe.namespace import PODS, concluded, own_namespace
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_web.plan import (
    NAME,
    SCHEDULER,
    foreign_schedulers,
    manifests,
    outcome,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import parse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import leaves

Object = dict[str, t.Any]


class Probe:
    def __init__(self, params: t.Mapping[str, t.Any], kube: Kube) -> None:
        self.params = params
        self.kube = kube
        self.namespace: str = params["namespace"]
        self.token = secrets.token_hex(16)

    def run(self) -> list[Object]:
        start = time.monotonic()
        with own_namespace(self.kube, self.namespace, self.params["timeout"], (("apps/v1", "Deployment"), *PODS)):
            return self._observe(start)

    def _observe(self, start: float) -> list[Object]:
        params, queues = self.params, leaves(parse(self.params["queues"]))
        queue = queues[0].name if queues else ""
        scheduler = params["scheduler_name"]
        for manifest in manifests(self.namespace, params["image"], self.token, params["timeout"], scheduler, queue):
            self.kube.create(manifest)
        try:
            verdict, reason = wait_for("the web page", self._look, self.params["timeout"], interval=0.5)
        except TenancyError as exc:
            if "last_seen" not in exc.details:
                raise
            verdict, reason = "failed", exc.message
        foreign = foreign_schedulers(self._pods(), scheduler)
        return [
            _result("page", verdict, reason, start),
            _result("scheduler", "failed" if foreign else "passed", ", ".join(foreign) or scheduler, start),
        ]

    def _look(self) -> tuple[tuple[str, str] | None, str]:
        verdict, reason = outcome(self._pods(), self.token)
        return ((verdict, reason) if verdict else None), reason

    def _pods(self) -> list[Object]:
        return self.kube.list("v1", "Pod", self.namespace)


def _result(name: str, verdict: str, reason: str, start: float) -> Object:
    return {"name": name, "verdict": verdict, "reason": reason, "seconds": round(time.monotonic() - start, 1)}


def run(params: t.Mapping[str, t.Any], kube: Kube, check_mode: bool) -> Object:
    start = time.monotonic()
    if check_mode:
        results = [_result(name, "not_tried", "check mode", start) for name in ("page", "scheduler")]
    else:
        results = Probe(params, kube).run()
    return concluded(results, start)


def main() -> None:
    module = kube_module(
        argument_spec={
            "namespace": {"type": "str", "default": NAME},
            "image": {"type": "str", "default": "docker.io/library/busybox:1.37.0"},
            "scheduler_name": {"type": "str", "default": SCHEDULER},
            "queues": {"type": "list", "elements": "dict", "default": []},
            "timeout": {"type": "int", "default": 90},
        }
    )
    try:
        module.exit_json(**run(module.params, Kube.connect(module), module.check_mode))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
