#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenant_record."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenant_record
short_description: Record what was verified of a tenant
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Records the checks of a tenant and their outcome, in a ConfigMap of its namespace on the host cluster, with everything they rest
    on, so that M(kubegpu.tenancy.tenancy_info) can tell whether they still stand.
options:
  name:
    description:
      - Name of the tenant.
    type: str
    required: true
  wanted:
    description:
      - Digest of its desired state, as M(kubegpu.tenancy.tenancy_info) returned it.
    type: str
    required: true
  results:
    description:
      - The checks, as the probes of this collection return them.
    type: list
    elements: dict
    required: true
  scheduler_version:
    description:
      - Version of the KAI Scheduler of its own that is installed in it. Reports tell this version. What a tenant's pods say, its
        administrator can write. Empty without one.
    type: str
    default: ""
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
  idempotent:
    details: The record says something about a tenant and is no part of it, so it never counts as changed.
seealso:
  - module: kubegpu.tenancy.tenancy_info
"""

EXAMPLES = r"""
- name: Record that a web page was served in the tenant
  kubegpu.tenancy.tenant_record:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    name: web
    wanted: "{{ (found.tenants | selectattr('name', 'eq', 'web') | first).wanted }}"
    results: "{{ probe.results }}"
"""

RETURN = r"""
at:
  description: When the record was written, in UTC.
  returned: success
  type: str
  sample: "2026-11-22T12:30:00Z"
"""

from ..module_utils._engine.tenant_record import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
