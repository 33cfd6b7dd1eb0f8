# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The virtual clusters of a host cluster, those of others included, by six LISTs however many there are.

What a tenant made is none of theirs: its syncer brings Secrets to the host cluster with any label and content.
"""

from __future__ import annotations

import base64
import collections
import typing as t

from .._common.documents import load_document
from .._common.names import CONFIG_SECRET, KUBECONFIG_SECRET
from .._common.ownership import own
from .._common.parties import Unread, each
from .._common.values import JsonObject, Values
from .._kubeconfig import values as kubeconfig
from .facts import CONTROL_PLANE
from .status import describe

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube

# Namespace and name.
Key = tuple[str, str]


class Found(t.NamedTuple):
    """Virtual clusters of a host cluster.

    :ivar records: of each as module vcluster_info documents it, in order of namespace and name.
    :ivar unread: what of them could not be read.
    """

    records: list[JsonObject]
    unread: list[Unread]


class Configurations(t.NamedTuple):
    """The whole configuration of each virtual cluster, by "namespace/name", and the ones that could not be read."""

    read: dict[str, Values]
    unread: list[Unread]


def find(kube: Kube) -> Found:
    """Read every virtual cluster of a host cluster."""
    secrets = _secrets(kube)
    configurations, unread = _read_configs(secrets)
    if not configurations:
        return Found([], unread)
    workloads = [item for kind in ("StatefulSet", "Deployment") for item in kube.list("apps/v1", kind, None, CONTROL_PLANE)]
    namespaces = {item["metadata"]["name"]: item for item in kube.list("v1", "Namespace")}
    pods, volumes = (_by_namespace(kube.list("v1", kind)) for kind in ("Pod", "PersistentVolumeClaim"))

    def record(item: JsonObject) -> tuple[Key, JsonObject]:
        namespace, name = key = _key(item)
        found = describe(item, namespaces.get(namespace), configurations[key], pods[namespace], own(volumes[namespace]))
        user = kubeconfig.secret_user(secrets.get((namespace, f"{KUBECONFIG_SECRET}{name}"), {}))
        return key, found | {"kubeconfig_expires": kubeconfig.iso(kubeconfig.expiry(user))}

    # An etcd of its own carries the label of a control plane, but has no configuration.
    known = [item for item in workloads if _key(item) in configurations]
    records, more = each(known, lambda item: f"virtual cluster {'/'.join(_key(item))}", record)
    return Found([found for _key, found in sorted(records, key=lambda pair: pair[0])], [*unread, *more])


def configs(kube: Kube) -> Configurations:
    """Read the configuration of each virtual cluster; one LIST."""
    found, unread = _read_configs(_secrets(kube))
    return Configurations({"/".join(key): config for key, config in found.items()}, unread)


def _secrets(kube: Kube) -> dict[Key, JsonObject]:
    """Return configurations and kubeconfigs, which carry the same label."""
    return {_key(item): item for item in kube.list("v1", "Secret", None, CONTROL_PLANE)}


def _read_configs(secrets: dict[Key, JsonObject]) -> tuple[dict[Key, Values], list[Unread]]:
    """Return the configurations among the Secrets, each read by itself."""
    named = [
        key for key, item in secrets.items() if key[1].startswith(CONFIG_SECRET) and "config.yaml" in (item.get("data") or {})
    ]
    found, unread = each(named, lambda key: f"Secret {'/'.join(key)}", lambda key: (key, _config(secrets[key])))
    return {(namespace, name.removeprefix(CONFIG_SECRET)): config for (namespace, name), config in found}, unread


def _config(secret: JsonObject) -> Values:
    """Return the configuration in a Secret.

    :raises ValueError: where it holds none.
    """
    config = load_document(base64.b64decode(secret["data"]["config.yaml"])) or {}
    if not isinstance(config, dict):
        raise ValueError("its config.yaml is no mapping")
    return config


def _key(item: JsonObject) -> Key:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def _by_namespace(items: list[JsonObject]) -> dict[str, list[JsonObject]]:
    grouped: dict[str, list[JsonObject]] = collections.defaultdict(list)
    for item in items:
        grouped[item["metadata"]["namespace"]].append(item)
    return grouped
