# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what a pod asks for that its release of KAI Scheduler reads in its own way, or not at all."""

from __future__ import annotations

import itertools
import re

from .._common.names import FRACTION_NOTE, MEMORY_NOTE, NODE_POOL_LABEL, QUEUE_LABEL
from .._common.ownership import MARKER_LABEL, annotations_of, is_synced, labels_of
from .._common.pods import Answer, is_ended
from .._common.quantity import go_number, whole
from .._common.synced import synced_from
from .._common.text import line
from .._common.values import JsonObject, key_of
from .._queues.values import pool_of
from . import facts
from .cluster import Cluster, scheduler_of

# Objects that are named in one sentence.
_NAMED = 9


# --- why it waits ----------------------------------------------------------------------------------------------------


def node_pool(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a pod whose node pool no scheduler serves, or has no node."""
    if not _knows_pools(cluster):
        return None
    pool = _pool(pod, cluster)
    if cluster.pools is not None and pool not in cluster.pools:
        message = f"It is for node pool {pool}, which no SchedulingShard of KAI Scheduler serves."
        if not pool:
            message = "It is for no node pool, and every SchedulingShard of KAI Scheduler serves one."
        served = " or ".join(sorted(filter(None, cluster.pools)))
        of = f"Give label {NODE_POOL_LABEL} of its workload the value {served}" if served else _without_label("its workload")
        return Answer("node_pool", message, f"{of}, or create a SchedulingShard with its partitionLabelValue.")
    others = cluster.node_pools
    if pool in others or not cluster.nodes:
        return _queue_of_other_pool(pod, pool, cluster)
    named = ", ".join(map(line, itertools.islice(filter(None, others), _NAMED)))
    whose = f"node pool {pool}" if pool else "none of the node pools"
    message = f"It is for {whose}, and no node is: label {NODE_POOL_LABEL} of the nodes says {named or 'nothing'}."
    return Answer(
        "node_pool", message, f"{_without_label('a node')}, or give its workload the label of the nodes that it is to run on."
    )


def _queue_of_other_pool(pod: JsonObject, pool: str, cluster: Cluster) -> Answer | None:
    """Answer for a pod whose queue the scheduler of its node pool does not see."""
    queue = cluster.queues.get(cluster.queue_of(pod) or "")
    if queue is None or queue.pool == pool:
        return None
    theirs, own = (f"node pool {line(one)}" if one else "no node pool" for one in (queue.pool, pool))
    message = f"It is for {own}, and its queue {line(queue.name)} for {theirs}: no scheduler of KAI Scheduler sees both."
    label = f"Give its workload the label {NODE_POOL_LABEL}: {line(queue.pool)}" if queue.pool else _without_label("its workload")
    return Answer("node_pool", message, f"{label}, or have it name a queue of its own pool.")


def of_other_pools(pod: JsonObject, cluster: Cluster) -> str:
    """Return which nodes are not for a pod because of their node pool, as a part of a sentence; empty for none."""
    own = cluster.node_pools.get(_pool(pod, cluster), set[str]())
    count = len(cluster.nodes_by_name) - len(own) if _knows_pools(cluster) else 0
    if not count:
        return ""
    names = itertools.islice((name for name in cluster.nodes_by_name if name not in own), _NAMED)
    more = f" and {count - _NAMED} more" if count > _NAMED else ""
    return f"; not of its node pool are {', '.join(map(line, names))}{more}"


def _knows_pools(cluster: Cluster) -> bool:
    return bool(cluster.schedulers) and (cluster.version is None or cluster.version >= facts.NODE_POOLS_SINCE)


def _pool(pod: JsonObject, cluster: Cluster) -> str:
    return pool_of(cluster.group_of(pod)) or pool_of(pod)


def _without_label(what: str) -> str:
    return f"Take label {NODE_POOL_LABEL} off {what}"


def fraction(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a part of a GPU that is no part: KAI lets it in and can place it nowhere, or takes it for none."""
    notes = annotations_of(pod)
    for note, is_read, example in ((FRACTION_NOTE, _is_part, "0.5"), (MEMORY_NOTE, _is_memory, "8000")):
        if note not in notes or is_read(str(notes[note])):
            continue
        form = "a decimal between 0 and 1" if note == FRACTION_NOTE else "whole MiB"
        let_in = note == FRACTION_NOTE and str(notes[note]).lower() == "nan" and facts.NOT_A_NUMBER.is_in(cluster.version)
        fault = f" ({facts.NOT_A_NUMBER}; such a pod is refused from then on)" if let_in else ""
        blanks = " with blanks around it" if str(notes[note]) != str(notes[note]).strip() else ""
        return Answer(
            "fraction",
            f'Its annotation {note} is "{line(notes[note])}"{blanks}, which {cluster.release} cannot place{fault}.',
            f'Write {note} in its workload as {form} in quotes, such as "{example}", and create the pod anew.',
        )
    return None


def _is_part(text: str) -> bool:
    """Tell whether KAI Scheduler reads a text as a part of a GPU."""
    try:
        return 0 < go_number(text) <= 1
    except ValueError:
        return False


def _is_memory(text: str) -> bool:
    try:
        # Go reads no blanks.
        return text == text.strip() and whole(text) > 0
    except ValueError:
        return False


def config_map(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a ConfigMap that is not there; some releases wait for one that the pod marks optional, too."""
    texts = (found for told in cluster.scheduler_reasons(pod) if (found := re.search(facts.CONFIG_MAPS_MISSING, told.message)))
    names = next((found["names"].split() for found in texts), [])
    if not names:
        return None
    needed = _needed_config_maps(pod)
    place, listed = key_of(pod)[0], ", ".join(_known_as(pod, name) for name in names[:_NAMED])
    if is_synced(pod):
        place = f"{synced_from(pod)} of its virtual cluster"
    missing = f"ConfigMap {listed}, which {'do' if len(names) > 1 else 'does'} not exist in namespace {place}"
    if needed.isdisjoint(names):
        return Answer(
            "config_map",
            f"{cluster.release} waits for {missing}, although the pod marks it optional ({facts.OPTIONAL}).",
            f"Create an empty ConfigMap {listed} in namespace {place}, or change to a release of KAI Scheduler that reads optional.",
        )
    lacking = ", ".join([_known_as(pod, name) for name in names if name in needed][:_NAMED])
    advice = f"Create ConfigMap {lacking} in namespace {place}, or correct its name."
    return Answer("config_map", f"It names {missing}.", advice)


def _known_as(pod: JsonObject, name: str) -> str:
    """Return the name of an object that a pod names, as its tenant knows it; of a pod that no syncer brought, as it is."""
    namespace = synced_from(pod)
    end = "" if namespace is None else f"-x-{namespace}-x-{labels_of(pod)[MARKER_LABEL]}"
    return name.removesuffix(end) or name


def _needed_config_maps(pod: JsonObject) -> set[str]:
    """Return the ConfigMaps that a pod names and does not mark optional."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    references = [source.get("configMapRef") for one in containers for source in one.get("envFrom") or []]
    references += [
        (one.get("valueFrom") or {}).get("configMapKeyRef") for container in containers for one in container.get("env") or []
    ]
    for volume in spec.get("volumes") or []:
        sources = (volume.get("projected") or {}).get("sources") or []
        references += [volume.get("configMap"), *(source.get("configMap") for source in sources)]
    return {str(reference.get("name")) for reference in references if reference and not reference.get("optional")}


def slices(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for whole GPUs and parts that a node refuses for slices which it had once: their amount stays there as 0."""
    if not facts.ZEROES.is_in(cluster.version):
        return None
    strategies = {
        found["strategy"] for told in cluster.scheduler_reasons(pod) for found in re.finditer(facts.SLICES_ONLY, told.message)
    }
    nodes = [name for name, strategy in cluster.had_slices.items() if strategy in strategies]
    if not nodes:
        return None
    named = ", ".join(map(line, nodes[:_NAMED]))
    return Answer(
        "mig_leftover",
        f"{cluster.release} takes node {named} for one of MIG slices only, because it still lists slices, 0 of them ({facts.ZEROES}).",
        f"Label the node {facts.SLICES_LABEL}=false, a tenant's on the host cluster, or change to a release of KAI Scheduler without that.",
    )


# --- what KAI Scheduler does not read --------------------------------------------------------------------------------


def unread_fraction(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a pod that asks for a part of a GPU in words that no release reads: it has no GPU, and counts in no queue."""
    notes, labels = annotations_of(pod), labels_of(pod)
    if is_ended(pod) or not cluster.schedulers or notes.keys() & {FRACTION_NOTE, MEMORY_NOTE}:
        return None
    found = next(
        ((kind, name) for kind, where in (("annotation", notes), ("label", labels)) for name in _unread(kind) if name in where),
        None,
    )
    if not found:
        return None
    kind, name = found
    value = line((notes if kind == "annotation" else labels)[name])
    known = name.rpartition("/")[2]
    past = "" if cluster.is_kais(pod) else f", and {scheduler_of(pod)} places it"
    return Answer(
        "unread_fraction",
        f"No release of KAI Scheduler reads its {kind} {name}: it gets no part of a GPU{past}.",
        f'Write it in its workload as annotation {known}: "{value}", with schedulerName: {cluster.scheduler} and the label {QUEUE_LABEL}.',
    )


def _unread(kind: str) -> tuple[str, ...]:
    return facts.UNREAD_NOTES if kind == "annotation" else (*facts.UNREAD_NOTES, FRACTION_NOTE, MEMORY_NOTE)


def own_group(pod: JsonObject, cluster: Cluster) -> Answer | None:
    """Answer for a pod in a group of Kubernetes' own API, which KAI Scheduler ignores."""
    field = next((field for field in facts.OWN_GROUP_FIELDS if pod["spec"].get(field)), None)
    if not field or is_ended(pod) or not cluster.is_kais(pod):
        return None
    return Answer(
        "own_group",
        f"KAI Scheduler does not read spec.{field}, the group of Kubernetes' own Workload API, so it starts without the rest of that group.",
        "Use a kind of workload that KAI Scheduler groups, or a PodGroup of its own, as examples/workloads/gang-pods.yaml has it.",
    )
