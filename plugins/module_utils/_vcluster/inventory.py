# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The virtual clusters of a host cluster, whoever made them, by six LISTs however many there are."""

from __future__ import annotations

import base64
import collections
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import load_document
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Values
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kubeconfig import values as kubeconfig
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import (
    CONFIG_SECRET,
    CONTROL_PLANE,
    KUBECONFIG_SECRET,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.status import describe

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube

Object = dict[str, t.Any]
# Namespace and name.
Key = tuple[str, str]


def find(kube: Kube) -> list[Object]:
    """Return a record of each virtual cluster as module vcluster_info documents it, in order of namespace and name."""
    secrets = _secrets(kube)
    configs = _configs(secrets)
    if not configs:
        return []
    workloads = [item for kind in ("StatefulSet", "Deployment") for item in kube.list("apps/v1", kind, None, CONTROL_PLANE)]
    namespaces = {item["metadata"]["name"]: item for item in kube.list("v1", "Namespace")}
    pods, volumes = (_by_namespace(kube.list("v1", kind)) for kind in ("Pod", "PersistentVolumeClaim"))
    records: dict[Key, Object] = {}
    for item in workloads:
        namespace, name = key = _key(item)
        # An etcd of its own carries the label of a control plane, but has no configuration.
        if key in configs:
            record = describe(item, namespaces.get(namespace), configs[key], pods[namespace], volumes[namespace])
            user = kubeconfig.secret_user(secrets.get((namespace, f"{KUBECONFIG_SECRET}{name}"), {}))
            records[key] = record | {"kubeconfig_expires": kubeconfig.iso(kubeconfig.expiry(user))}
    return [records[key] for key in sorted(records)]


def configs(kube: Kube) -> dict[str, Values]:
    """Return the whole configuration of each virtual cluster, by "namespace/name"; one LIST."""
    return {"/".join(key): config for key, config in _configs(_secrets(kube)).items()}


def _secrets(kube: Kube) -> dict[Key, Object]:
    """Configurations and kubeconfigs, which carry the same label."""
    return {_key(item): item for item in kube.list("v1", "Secret", None, CONTROL_PLANE)}


def _configs(secrets: dict[Key, Object]) -> dict[Key, Values]:
    return {
        (namespace, name.removeprefix(CONFIG_SECRET)): load_document(base64.b64decode(secret["data"]["config.yaml"])) or {}
        for (namespace, name), secret in secrets.items()
        if name.startswith(CONFIG_SECRET) and "config.yaml" in (secret.get("data") or {})
    }


def _key(item: Object) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _by_namespace(items: list[Object]) -> dict[str, list[Object]]:
    grouped: dict[str, list[Object]] = collections.defaultdict(list)
    for item in items:
        grouped[item["metadata"]["namespace"]].append(item)
    return grouped
