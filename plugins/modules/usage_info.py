#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.usage_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: usage_info
short_description: Count the GPU-hours that tenants were promised, held and used
version_added: 0.1.0
description:
  - Reads series of kube-state-metrics, DCGM exporter and KAI Scheduler from a server that answers PromQL, such as Prometheus, Thanos or Mimir.
    Without such a server it counts by kept evidence, which is coarser.
  - Time in which nothing was measured is not taken for time in which nothing was held. It is returned as RV(usage.not_measured).
  - On each day, of a tenant and of a queue, C(held + idle = promised + borrowed). Of the cluster, C(had = held + other + free).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  evidence:
    description:
      - Folder with kept evidence, as C(tenancy.json) in folders of its own, or as files C(*.json) with any names.
    type: path
  cluster:
    description:
      - Inventory host of the cluster, by which evidence names it. Required with O(evidence).
    type: str
  month:
    description:
      - Month, in UTC, such as C(2026-11). The last one that is over, if neither this nor O(begin) is given.
    type: str
  begin:
    description:
      - Beginning of another span, a whole hour in UTC, such as C(2026-11-01T00:00:00Z).
    type: str
  end:
    description:
      - End of that span, alike. Hours that are not over are left out.
    type: str
  time_zone:
    description:
      - Time zone by which hours are added up to days. The span stays one of UTC.
    type: str
    default: UTC
  tenants:
    description:
      - Tenants of the inventory, as C(kubegpu_tenants) has them. Queues of other tenants are not read.
    type: list
    elements: dict
    default: []
  timeout:
    description:
      - Seconds for all of it.
    type: int
    default: 600
extends_documentation_fragment:
  - kubegpu.tenancy._metrics_server
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Count the GPU-hours of November
  kubegpu.tenancy.usage_info:
    url: https://prometheus.example
    token: "{{ vault_prometheus_token }}"
    month: 2026-11
    time_zone: Europe/Berlin
    tenants: "{{ kubegpu_tenants }}"
  register: november
"""

RETURN = r"""
usage:
  description: What was counted.
  returned: success
  type: dict
  contains:
    begin:
      description: Beginning of the span, in UTC.
      type: str
    end:
      description: End of the span, in UTC.
      type: str
    time_zone:
      description: Time zone of the days.
      type: str
    source:
      description: What told which GPUs were held, V(kube-state-metrics), V(DCGM exporter), V(queues of KAI Scheduler) or V(evidence).
      type: str
    cluster:
      description:
        - A row for each day, with its V(hours), those V(not_measured), and GPU-hours that the cluster V(had).
        - They are V(held) by tenants, V(other) by pods of none, or V(free).
      type: list
      elements: dict
    products:
      description: GPU-hours that the cluster had, by GPU product.
      type: dict
    tenants:
      description:
        - A row for each tenant, product and day, with GPU-hours V(promised), V(held), V(borrowed), V(idle), V(used), V(unused) and
          V(use_not_measured).
        - V(promised), V(borrowed) and V(idle) are null where no series says what was promised.
      type: list
      elements: dict
    queues:
      description: A row for each queue without queues below it and each day, with GPU-hours V(promised), V(held), V(borrowed) and V(idle).
      type: list
      elements: dict
    not_measured:
      description: What was not measured, and in how many hours.
      type: list
      elements: dict
    notes:
      description: A sentence for each thing that a reader of the numbers has to know.
      type: list
      elements: str
"""

from ..module_utils._engine.usage_info import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.host_module import run_host_module


def main() -> None:
    run_host_module(reconcile, ARGUMENT_SPEC, required_one_of=[["url", "evidence"]], required_by={"evidence": "cluster"})


if __name__ == "__main__":
    main()
