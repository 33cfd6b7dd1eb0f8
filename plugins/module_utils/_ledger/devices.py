# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge which pod has which device of a node, by what kubelet keeps in its file about devices. Pure."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import itertools
import re
import typing as t

from .._common.documents import parse_json
from .._common.names import GPU_RESOURCE, GPU_UUID, RESERVED_GPU_NOTE
from .._common.ownership import annotations_of, is_synced
from .._common.parties import each
from .._common.pods import is_ended
from .._common.quantity import plain
from .._common.synced import virtual_name
from .._common.text import shown
from .._common.values import JsonObject
from .._nodes.status import NONE, VENDOR, WHOLE, held, is_reservation, part_of_gpu, reserves
from .facts import CHECKPOINT, DEVICE_PLUGINS_FOLDER
from .model import MOST_TOLD, Group, Offer, Owners, offer_of, pod_name


@dataclasses.dataclass(frozen=True)
class Assigned:
    """What kubelet knows of a node's devices of NVIDIA.

    :ivar devices: IDs of all devices of the node. They are UUIDs, unless the device plugin is told otherwise.
    :ivar pods: IDs of each pod's devices, by the pod's UID. Pods that have gone may be among them.
    """

    devices: frozenset[str]
    pods: t.Mapping[str, frozenset[str]]


class Reader(t.NamedTuple):
    """A container through which kubelet's file about a node's devices can be read."""

    pod: str
    namespace: str
    container: str
    path: str


def readers(pods: t.Iterable[JsonObject], namespaces: t.Iterable[JsonObject]) -> dict[str, Reader]:
    """Return a container of a device plugin for each node that has one that runs.

    Pods of tenants do not count: what they answer would be what the tenant likes.
    """
    whose = Owners(namespaces)
    found: dict[str, Reader] = {}
    for pod in pods:
        spec, metadata = pod["spec"], pod["metadata"]
        if (pod.get("status") or {}).get("phase") != "Running" or is_synced(pod) or whose.of(pod):
            continue
        folders = {
            volume["name"]
            for volume in spec.get("volumes") or []
            if str((volume.get("hostPath") or {}).get("path", "")).rstrip("/") == DEVICE_PLUGINS_FOLDER
        }
        for container in spec["containers"]:
            for mount in container.get("volumeMounts") or []:
                if mount["name"] in folders:
                    path = f"{mount['mountPath'].rstrip('/')}/{CHECKPOINT}"
                    found.setdefault(spec["nodeName"], Reader(metadata["name"], metadata["namespace"], container["name"], path))
    return found


def assigned(checkpoint: str) -> Assigned:
    """Return what kubelet's file about devices says.

    :raises ValueError: where it is not of the form that is known.
    """
    try:
        data = parse_json(checkpoint)["Data"]
        registered = {one for name, ids in (data["RegisteredDevices"] or {}).items() if name.startswith(VENDOR) for one in ids}
        pods: dict[str, set[str]] = {}
        for entry in data["PodDeviceEntries"] or []:
            if entry["ResourceName"].startswith(VENDOR):
                # By NUMA node.
                pods.setdefault(entry["PodUID"], set()).update(*entry["DeviceIDs"].values())
    except (AttributeError, KeyError, TypeError) as exc:
        raise ValueError(f"it is not of the form that is known: {type(exc).__name__} {exc}") from exc
    if not all(isinstance(one, str) for one in registered.union(*pods.values())):
        raise ValueError("it is not of the form that is known: an ID of a device is no text")
    return Assigned(frozenset(registered), {pod: frozenset(ids) for pod, ids in pods.items()})


def devices(
    nodes: list[JsonObject],
    pods: list[JsonObject],
    namespaces: list[JsonObject],
    known: t.Mapping[str, Assigned],
    resource: str = GPU_RESOURCE,
) -> list[JsonObject]:
    """Return a row for each device and pod that has it or a part of it, and for each device that is free, by node and device.

    :arg known: what kubelet knows, by node; of other nodes, only what KAI Scheduler noted of shared GPUs is known.
    :returns: as module gpu_ledger_info documents them.
    """
    whose = Owners(namespaces)
    placed: dict[str, list[JsonObject]] = collections.defaultdict(list)
    for pod in pods:
        if not is_ended(pod):
            placed[pod["spec"].get("nodeName", "")].append(pod)
    offers, _unread = each(nodes, lambda node: str(node["metadata"]["name"]), lambda node: offer_of(node, resource))
    rows = []
    for offer in sorted(offers, key=lambda offer: offer.node):
        here, seen = placed[offer.node], known.get(offer.node)
        taken = _taken(offer, here, seen, whose, resource)
        used = {row["device"] for row in taken}
        # Of a pod whose amounts cannot be read, the ledger says so.
        amounts, _unread = each(here, pod_name, lambda pod: held(pod, resource))
        free = sorted(seen.devices - used) if seen else [None] * min(offer.gpus - sum(amounts), MOST_TOLD)
        rows += sorted(
            [*taken, *({"node": offer.node, "device": one, "tenant": "", "pod": "", "part": 0.0} for one in free)],
            key=lambda row: (row["device"] is None, row["device"] or "", not row["pod"], row["pod"]),
        )
    return rows


def _taken(offer: Offer, here: list[JsonObject], seen: Assigned | None, whose: Owners, resource: str) -> list[JsonObject]:
    """Return a row for each device of a node and pod that has it or a part of it."""
    sharing: dict[Group, list[JsonObject]] = collections.defaultdict(list)
    for pod in here:
        if not is_reservation(pod):
            for group in whose.groups(pod):
                sharing[group].append(pod)

    def rows(pod: JsonObject) -> list[JsonObject]:
        holders = _holders(pod, sharing, whose, offer.memory) if reserves(pod, resource) else [(pod, WHOLE)]
        return [
            {"node": offer.node, "device": device, "tenant": whose.of(holder)}
            | {"pod": shown(virtual_name(holder)), "part": plain(part) * 1.0}
            for device in _devices_of(pod, seen, resource)
            for holder, part in holders
        ]

    found, _unread = each(here, pod_name, rows)
    return list(itertools.chain.from_iterable(found))


def _devices_of(pod: JsonObject, seen: Assigned | None, resource: str) -> list[str | None]:
    """Return the IDs of the devices that a pod keeps from others; None for each whose ID is not known."""
    gpus = held(pod, resource)
    ids = sorted(seen.pods.get(pod["metadata"].get("uid", ""), ())) if seen else []
    noted = annotations_of(pod).get(RESERVED_GPU_NOTE, "")
    # What a tenant's pod says of itself counts for nothing.
    if not ids and reserves(pod, resource) and not is_synced(pod) and re.fullmatch(GPU_UUID, noted):
        ids = [noted]
    return [*ids, *[None] * min(gpus - len(ids), MOST_TOLD)]


def _holders(
    pod: JsonObject, sharing: t.Mapping[Group, list[JsonObject]], whose: Owners, size: str
) -> list[tuple[JsonObject, decimal.Decimal]]:
    """Return the pods for which a pod reserves a GPU, and which part of it each has; the pod itself where there are none."""
    found = {id(one): one for group in whose.groups(pod) for one in sharing.get(group, ())}
    return [(one, part_of_gpu(one, size)) for one in found.values()] or [(pod, NONE)]
