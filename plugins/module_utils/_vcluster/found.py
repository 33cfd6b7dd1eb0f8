# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The virtual clusters of a host cluster, whoever made them."""

from __future__ import annotations

import base64
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube, Object
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts as vc

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass


def find(kube: Kube) -> list[Object]:
    """All of them as _vcluster.describe tells them, in order of namespace and name; five listings and one Secret each."""
    found = _with_config(kube)
    if not found:
        return []
    namespaces = {item["metadata"]["name"]: item for item in kube.list("v1", "Namespace")}
    pods, volumes = (_by_namespace(kube.list("v1", kind)) for kind in ("Pod", "PersistentVolumeClaim"))
    described = []
    for item, config in found:
        where = item["metadata"]["namespace"]
        described.append(vc.describe(item, namespaces.get(where), config, pods.get(where, []), volumes.get(where, [])))
    return sorted(described, key=lambda item: (item["namespace"], item["name"]))


def configs(kube: Kube) -> dict[str, Object]:
    """The whole configuration of each, by "namespace/name"."""
    found = _with_config(kube)
    return {f"{item['metadata']['namespace']}/{item['metadata']['name']}": config for item, config in found}


def _with_config(kube: Kube) -> list[tuple[Object, Object]]:
    workloads = [item for kind in ("StatefulSet", "Deployment") for item in kube.list("apps/v1", kind, None, vc.CONTROL_PLANE)]
    # A control plane's etcd may carry the same label, but has no configuration of its own.
    return [(item, config) for item in workloads if (config := _config(kube, item)) is not None]


def _config(kube: Kube, workload: Object) -> Object | None:
    secret = kube.get("v1", "Secret", f"vc-config-{workload['metadata']['name']}", workload["metadata"]["namespace"])
    return yaml.safe_load(base64.b64decode(secret["data"]["config.yaml"])) or {} if secret else None


def _by_namespace(items: list[Object]) -> dict[str, list[Object]]:
    found: dict[str, t.Any] = {}
    for item in items:
        found.setdefault(item["metadata"]["namespace"], []).append(item)
    return found
