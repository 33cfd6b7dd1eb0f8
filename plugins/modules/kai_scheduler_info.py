#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.kai_scheduler_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kai_scheduler_info
short_description: Tell how KAI Scheduler is in a cluster
version_added: 0.1.0
description:
  - Tells which release of KAI Scheduler a cluster has, whether all of its parts are available, what is known of that release, and
    what M(kubegpu.tenancy.kai_probe) saw last.
author: kubegpu.tenancy contributors (@kubegpu)
options:
  helm_binary:
    description:
      - Name or path of the C(helm) program.
    type: str
    default: helm
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
attributes:
  diff_mode:
    support: none
notes:
  - O(kubeconfig) has to be the path of a file on the host where the module runs, because C(helm) reads it too.
seealso:
  - module: kubegpu.tenancy.kai_scheduler
"""

EXAMPLES = r"""
- name: Look at the team's scheduler
  kubegpu.tenancy.kai_scheduler_info:
    kubeconfig: /etc/kubegpu/dc1/team-ml.yml
  register: scheduler

- name: Require a release with support
  ansible.builtin.assert:
    that: scheduler.ready and scheduler.supported
    fail_msg: "{{ scheduler.lacking }} {{ scheduler.hazards }}"
"""

RETURN = r"""
installed:
  description: Whether Helm knows a release of it. All other values are returned only then.
  returned: success
  type: bool
version:
  description: Its version.
  returned: when installed
  type: str
  sample: v0.13.1
known:
  description: Whether the table of releases knows the version. A newer one is treated as the newest known one.
  returned: when installed
  type: bool
status:
  description: What Helm says of the release.
  returned: when installed
  type: str
  sample: deployed
values:
  description: Values that were given to the chart.
  returned: when installed
  type: dict
installed_by:
  description: V(helm) where Helm made all Deployments, V(operator) where an operator makes them from a Config.
  returned: when installed
  type: str
  sample: operator
ready:
  description: Whether all of its parts are available.
  returned: when installed
  type: bool
lacking:
  description: What is not.
  returned: when installed
  type: list
  elements: str
  sample: [Deployment binder does not exist]
conditions:
  description: What its Config and its SchedulingShards say.
  returned: when installed
  type: list
  elements: dict
  contains:
    object:
      description: Kind and name.
      type: str
      returned: always
    type:
      description: The condition.
      type: str
      returned: always
    status:
      description: V(True), V(False) or V(Unknown).
      type: str
      returned: always
    current:
      description: Whether it is about the object as it is now.
      type: bool
      returned: always
    message:
      description: Its reason.
      type: str
      returned: always
  sample:
    - {object: Config kai-config, type: Available, status: "True", current: true, message: All operands are available}
hazards:
  description: What is known to go wrong with the version, and where that is told.
  returned: when installed
  type: list
  elements: str
  sample: ["its pod webhook stops every pod of the cluster while it does not answer (#104, #227, #883)"]
long_term:
  description: Whether its releases are supported for a year.
  returned: when installed
  type: bool
end_of_support:
  description: The last month with corrections. Null where upstream has not said.
  returned: when installed
  type: str
  sample: 2026-12
supported:
  description: Whether that month is not over.
  returned: when installed
  type: bool
kubernetes_tested:
  description: Whether upstream tests with the cluster's version of Kubernetes. Null where it does not say.
  returned: when installed
  type: bool
last_probe:
  description: What M(kubegpu.tenancy.kai_probe) returned last. Null where it never ran.
  returned: when installed
  type: dict
"""

import datetime
import json
import re
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Helm
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, kube_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.status import conditions, lacking
from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_kai.plan import RECORD


def run(kube: Kube, helm: Helm, today: datetime.date) -> dict[str, t.Any]:
    found = helm.release(kai.RELEASE_NAME, kai.NAMESPACE)
    if found is None:
        return {"changed": False, "installed": False}
    release = kai.release(found.chart_version)
    missing = lacking(kube, release)
    record = kube.get("v1", "ConfigMap", RECORD, kai.NAMESPACE)
    return {
        "changed": False,
        "installed": True,
        "version": release.version,
        "known": release.known,
        "status": found.status,
        "values": found.values,
        "installed_by": "operator" if release.operator else "helm",
        "ready": found.status == "deployed" and not missing,
        "lacking": missing,
        "conditions": conditions(kube, release),
        "hazards": list(release.hazards),
        "long_term": release.long_term,
        "end_of_support": release.end_of_support,
        "supported": release.end_of_support is None or f"{today:%Y-%m}" <= release.end_of_support,
        "kubernetes_tested": _is_tested(kube.version(), release.kubernetes),
        "last_probe": json.loads(record["data"]["found"]) if record else None,
    }


def _is_tested(version: str, tested: tuple[tuple[int, int], tuple[int, int]] | None) -> bool | None:
    minor = re.match(r"v(\d+)\.(\d+)", version)
    return tested[0] <= (int(minor[1]), int(minor[2])) <= tested[1] if tested and minor else None


def main() -> None:
    module = kube_module(argument_spec={"helm_binary": {"type": "str", "default": "helm"}})
    try:
        helm = Helm.connect(module._module.run_command, module.params)
        module.exit_json(**run(Kube.connect(module), helm, datetime.datetime.now(datetime.UTC).date()))
    except TenancyError as exc:
        module.fail_json(msg=exc.message, **exc.details)


if __name__ == "__main__":
    main()
