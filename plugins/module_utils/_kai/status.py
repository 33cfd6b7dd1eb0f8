# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Judge what an installation of KAI Scheduler shows of itself: what is missing, what is left of it, what upstream supports."""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from .._common.names import KAI_SCHEDULERS
from .._common.ownership import annotations_of, is_owned
from .._common.pods import container_statuses, image_tag, is_ready, pod_state
from .._common.quantity import whole
from .._common.values import JsonObject
from .facts import (
    ACCEPTED_ANNOTATION,
    BUILT_IN,
    CONDITIONS,
    CONFIG,
    CRDS,
    FOREIGN_KINDS,
    HELM_ANNOTATIONS,
    HOOK_ROLES,
    LOG_CAUSES,
    LOG_ERROR,
    WEBHOOKS,
    Release,
)
from .values import image_named

# --- is it available? ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Parts:
    """The objects that show whether a release is available; empty where the release has none of that kind."""

    config: JsonObject | None
    shards: list[JsonObject]
    webhooks: list[JsonObject]
    deployments: list[JsonObject]


def missing(release: Release, parts: Parts) -> list[str]:
    """Return what a release still needs to count as available, a phrase each; empty when it is."""
    phrases: list[str] = []
    if release.operator:
        phrases += unready([parts.config]) if parts.config else [f"{CONFIG[1]} {CONFIG[2]} does not exist"]
    return [
        *phrases,
        *without_ca(parts.webhooks),
        *unready(parts.shards),
        *unavailable(release.deployments, parts.deployments),
        *outdated(release.scheduler, parts),
    ]


def outdated(scheduler: str, parts: Parts) -> list[str]:
    """Return whether the scheduler's Deployment has not the image that the Config names, as a phrase.

    The Config's conditions do not tell: the scheduler belongs to a SchedulingShard, whose generation need not change.
    """
    spec = (parts.config or {}).get("spec") or {}
    wanted = image_named(((spec.get("scheduler") or {}).get("service") or {}).get("image") or {})
    images = [_image(item) for item in parts.deployments if wanted and item["metadata"]["name"] == scheduler]
    return [f"Deployment {scheduler} has still the image {image}" for image in images if image != wanted]


def _image(deployment: JsonObject) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def scheduler_version(deployments: t.Iterable[JsonObject]) -> str:
    """Return the version of a scheduler that is installed, by the tag of its image, such as v0.16.8; empty without one.

    :arg deployments: those in KAI's namespace.
    """
    images = {item["metadata"]["name"]: _image(item) for item in deployments if item["metadata"]["name"] in KAI_SCHEDULERS}
    # Another one in its namespace need not be of its release.
    return next((image_tag(images[name]) for name in KAI_SCHEDULERS if name in images), "")


def unready(objects: t.Iterable[JsonObject]) -> list[str]:
    """Return which conditions a Config and SchedulingShards do not meet for their current generation."""
    phrases = []
    for item in objects:
        generation = item["metadata"].get("generation")
        reported = {condition["type"]: condition for condition in item.get("status", {}).get("conditions") or []}
        for name in CONDITIONS:
            condition = reported.get(name, {})
            if condition.get("status") != "True" or condition.get("observedGeneration") != generation:
                message = condition.get("message") or "not reported yet"
                phrases.append(f"{item['kind']} {item['metadata']['name']} is not {name}: {message}")
                break
    return phrases


def without_ca(webhooks: t.Iterable[JsonObject]) -> list[str]:
    """Return which of KAI's webhook configurations cannot be called yet, because a job has still to give them a CA."""
    return [
        f"{item['kind']} {item['metadata']['name']} has no CA yet"
        for item in webhooks
        if is_kai_webhook(item) and not all(webhook["clientConfig"].get("caBundle") for webhook in item.get("webhooks", []))
    ]


def unavailable(names: t.Iterable[str], deployments: t.Iterable[JsonObject]) -> list[str]:
    """Return which of the named Deployments do not exist or are not completely rolled out."""
    live = {item["metadata"]["name"]: item for item in deployments}
    phrases = []
    for name in names:
        item = live.get(name)
        if item is None:
            phrases.append(f"Deployment {name} does not exist")
            continue
        # A Deployment that was scaled to nothing does nothing, regardless of its own status.
        status, wanted = item.get("status", {}), max(1, item["spec"].get("replicas", 1))
        current = status.get("observedGeneration") == item["metadata"].get("generation")
        ready = min(status.get("availableReplicas", 0), status.get("updatedReplicas", 0)) if current else 0
        if ready < wanted:
            phrases.append(f"Deployment {name} has {ready} of {wanted} pods available")
        elif status.get("replicas", 0) > wanted:
            phrases.append(f"Deployment {name} still has old pods")
    return phrases


def conditions(parts: Parts) -> list[JsonObject]:
    """Return all conditions that the Config and the SchedulingShards report, and whether each is about the object as it is."""
    return [
        {
            "object": f"{item['kind']} {item['metadata']['name']}",
            "type": condition["type"],
            "status": condition["status"],
            "current": condition.get("observedGeneration") == item["metadata"].get("generation"),
            "message": condition.get("message", ""),
        }
        for item in [*([parts.config] if parts.config else []), *parts.shards]
        for condition in item.get("status", {}).get("conditions") or []
    ]


def established(names: t.Collection[str], crds: t.Iterable[JsonObject]) -> tuple[bool | None, str]:
    """Probe for ``wait_for``: True once the API server serves the CRDs with these names."""
    served = {
        crd["metadata"]["name"]
        for crd in crds
        for condition in crd.get("status", {}).get("conditions") or []
        if condition["type"] == "Established" and condition["status"] == "True"
    }
    pending = sorted(set(names) - served)
    return (None, f"{', '.join(pending)} not established") if pending else (True, "")


def is_unauthorised(pod: JsonObject, account: JsonObject | None) -> bool:
    """Tell whether a pod is older than its service account, so that its token is one of an account that is gone (#1536)."""
    # Both are RFC 3339 in UTC, which sort as they follow each other.
    return account is not None and pod["metadata"]["creationTimestamp"] < account["metadata"]["creationTimestamp"]


# --- what is left of it? -------------------------------------------------------------------------------------------


def is_kai_webhook(item: JsonObject) -> bool:
    """Tell whether a webhook configuration is one of any release of KAI."""
    return (item["kind"], item["metadata"]["name"]) in WEBHOOKS


def is_of_chart(item: JsonObject) -> bool:
    """Tell whether a cluster-scoped object came with KAI's Helm release or with one of its hooks."""
    return HELM_ANNOTATIONS.items() <= annotations_of(item).items() or item["metadata"]["name"] in HOOK_ROLES


def is_kai_crd(item: JsonObject) -> bool:
    """Tell whether a CRD is KAI's, or the stub of NVIDIA's that this collection installs for it."""
    name = item["metadata"]["name"]
    return name in CRDS or (name in FOREIGN_KINDS and is_owned(item))


def is_built_in(item: JsonObject) -> bool:
    """Tell whether every namespace has such an object of itself."""
    return (item["kind"], item["metadata"]["name"]) in BUILT_IN


def accepted_hazards(namespace: JsonObject | None) -> list[str]:
    """Return the names of the hazards that KAI's namespace says were accepted."""
    return [name for name in annotations_of(namespace).get(ACCEPTED_ANNOTATION, "").split(",") if name]


# --- what does upstream support? -----------------------------------------------------------------------------------


def is_supported(release: Release, today: datetime.date) -> bool:
    """Tell whether a release still gets corrections; one whose end is not known does."""
    return release.end_of_support is None or f"{today:%Y-%m}" <= release.end_of_support


def is_kubernetes_tested(release: Release, version: str) -> bool | None:
    """Tell whether upstream tests a release with a version of Kubernetes, such as v1.35.4; None where nothing is known."""
    minor = re.match(r"v(\d{1,9})\.(\d{1,9})", version, re.ASCII)
    if release.kubernetes is None or minor is None:
        return None
    first, last = release.kubernetes
    return first <= (whole(minor[1]), whole(minor[2])) <= last


def images_on(nodes: t.Iterable[JsonObject]) -> set[str]:
    """Return the images that some ready node has, as far as nodes say it: a kubelet names fifty of its own (nodeStatusMaxImages)."""
    return {
        name
        for node in nodes
        if is_ready(node)
        for image in node["status"].get("images") or []
        for name in image.get("names") or []
    }


def pulled(pod: JsonObject | None) -> tuple[bool | None, str]:
    """Probe for ``wait_for``: True once a node has all images of a pod."""
    if pod is None:
        return None, "its pod is gone"
    statuses = container_statuses(pod)
    done = len(statuses) == len(pod["spec"]["containers"]) and all(status.get("imageID") for status in statuses)
    return (True, "") if done else (None, pod_state(pod))


# --- its logs ------------------------------------------------------------------------------------------------------


def plain_lines(log: str) -> list[str]:
    """Return a log's lines without the colours that some of its writers give their levels."""
    return re.sub(r"\x1b\[[\d;]*m", "", log).splitlines()


def is_error(line: str) -> bool:
    """Tell whether a line of a log of KAI's pods is an error."""
    return re.search(LOG_ERROR, line) is not None


def scheduling_reasons(group: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return KAI's reasons for not placing a PodGroup, the newest ones; an empty list where it gives none."""
    # The newest condition is the last (setPodGroupSchedulingCondition in status_updater).
    conditions = (group.get("status") or {}).get("schedulingConditions") or [{}]
    return conditions[-1].get("reasons") or []


def without_names(line: str) -> str:
    """Return a line of a log without what differs each time: what is quoted, or has a digit, as times and names of pods do."""
    # Each word is matched as a whole, and looked through after that: a log may hold one of a million letters.
    return re.sub(r'"[^"]*"|[^\s"]+', _unnamed, line)


def _unnamed(word: re.Match[str]) -> str:
    return "…" if word[0].startswith('"') or re.search(r"\d", word[0]) else word[0]


def log_cause(line: str) -> tuple[str, str] | None:
    """Return what a line of a log of KAI's pods means, and what to do; None where that is not known."""
    for pattern, meaning, advice in LOG_CAUSES:
        if found := re.search(pattern, line):
            names = {"kind": "", "resource": ""} | found.groupdict()
            names["resource"] = names["resource"] or f"of {names['kind']}"
            return meaning.format(**names), advice
    return None
