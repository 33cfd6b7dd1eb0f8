# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Values for the chart of one release of KAI Scheduler, and what it makes of them."""

from __future__ import annotations

import typing as t

from .._common.documents import load_manifests
from .._common.errors import refusal
from .._common.names import HELM_HOOK, KAI_NAMESPACE, RUNTIME_CLASS
from .._common.ownership import OWNED_LABELS, annotations_of
from .._common.pods import pod_spec
from .._common.values import JsonObject, Values, deep_merge, value_at
from .facts import (
    ACCEPTED_ANNOTATION,
    CONFIG,
    CONFIG_PARTS,
    FACTS,
    OPERATOR,
    PART_IMAGES,
    RENAMED,
    REPOSITORY_VARIABLE,
    TAG_VARIABLE,
    Release,
)

_TOPOLOGY_MIGRATION = "topologyMigration.enabled"


def chart_values(release: Release, gpu_sharing: bool, cdi: bool | None = None, kueue: bool = False) -> Values:
    """Return what has to be set for a release to work as asked.

    :arg cdi: whether the device plugin hands GPUs out by CDI; None leaves it to KAI.
    :arg kueue: whether the cluster has Kueue's Topologies, which some releases copy.
    :raises TenancyError: where the release has no such setting.
    """
    settings: Values = {"global.registry": release.registry, release.gpu_sharing_key: gpu_sharing}
    if cdi is not None:
        if release.cdi_key is None:
            raise refusal("not-in-release", f"cdi: cannot be set in KAI Scheduler {release.version}. v0.12.11 and later can.")
        settings[release.cdi_key] = cdi
    if gpu_sharing and release.reservation_runtime_key:
        settings[release.reservation_runtime_key] = RUNTIME_CLASS
    if release.default_queue_key:
        settings[release.default_queue_key] = False
    if release.topology_migration and not kueue:
        settings[_TOPOLOGY_MIGRATION] = False
    if release.operator_qps:
        settings["operator.qps"] = release.operator_qps
    return _nested(settings)


def namespace(accepted: t.Collection[str] = ()) -> JsonObject:
    """Return KAI Scheduler's namespace; by its label others know that this collection owns the installation.

    :arg accepted: names of the hazards that were accepted.
    """
    note = accepted_note(accepted)
    metadata: JsonObject = {"name": KAI_NAMESPACE, "labels": dict(OWNED_LABELS)}
    metadata |= {"annotations": {ACCEPTED_ANNOTATION: note}} if note else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def accepted_note(accepted: t.Collection[str]) -> str | None:
    """Return what KAI's namespace notes of accepted hazards, None for none."""
    return ",".join(sorted(set(accepted))) or None


def runtime_class_values(release: Release, runtime_class: str) -> Values:
    """Return the values by which a release's reservation pods, and what it adds to pods with GPUs, name another RuntimeClass than nvidia.

    :arg runtime_class: empty for none.
    """
    return {} if runtime_class == RUNTIME_CLASS else _nested(dict.fromkeys(release.runtime_class_keys, runtime_class))


def memory_limit_values(release: Release) -> Values:
    """Return the values by which a release tells pods with parts of GPUs how much memory they have; none where it cannot."""
    return _nested(dict([release.memory_limit])) if release.memory_limit else {}


def limits_memory(spec: Values) -> bool:
    """Tell whether a Config has KAI Scheduler tell pods so, in the way of any release."""
    ways = [row.value for row in FACTS["memory_limit"] if row.value]
    return any(value_at(spec, path) == value for path, value in ways)


def shares_gpus(values: Values, release: Release) -> bool:
    """Tell whether pods can ask for fractions of a GPU with these values of a release's chart."""
    return bool(value_at(values, release.gpu_sharing_key))


def migrates_topologies(values: Values, release: Release) -> bool:
    """Tell whether a hook of a release's chart copies Kueue's Topologies with these values."""
    return release.topology_migration and value_at(values, _TOPOLOGY_MIGRATION) is not False


def without_migration(values: Values) -> Values:
    """Return values without the ones that only that hook reads, which no pod notices."""
    return {key: value for key, value in values.items() if key != _TOPOLOGY_MIGRATION.partition(".")[0]}


def parse_manifests(manifests: str) -> list[JsonObject]:
    """Return the objects in what helm renders, hooks among them."""
    return [item for item in load_manifests(manifests) if isinstance(item, dict)]


def config_in(manifests: t.Sequence[JsonObject]) -> JsonObject | None:
    """Return the Config that a chart's hooks make, without what is only the hook's; None where no hook makes one.

    Up to v0.12.21 the Config is such a hook itself; later releases have a Job apply it from a ConfigMap.
    """
    hooks = [item for item in manifests if HELM_HOOK in annotations_of(item)]
    data = [(item.get("data") or {}).items() for item in hooks if item["kind"] == "ConfigMap"]
    texts = [text for files in data for name, text in files if name.endswith(".yaml")]
    for item in [*hooks, *(item for text in texts for item in parse_manifests(text))]:
        if is_config(item):
            return {"apiVersion": CONFIG[0], "kind": CONFIG[1], "metadata": {"name": CONFIG[2]}, "spec": item["spec"]}
    return None


def config_spec(manifests: t.Sequence[JsonObject]) -> Values:
    """Return the spec of the Config that a chart makes, in any way, with the images that the operator takes where it names none."""
    config = config_in(manifests) or next((item for item in manifests if is_config(item)), None)
    if config is None:
        return {}
    (operator,) = (item for item in manifests if item["kind"] == "Deployment" and item["metadata"]["name"] == OPERATOR)
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    defaults = {"repository": variables[REPOSITORY_VARIABLE], "tag": variables[TAG_VARIABLE]}
    parts: Values = {part: {"service": {"image": {"name": name}}} for part, name in PART_IMAGES.items()}
    return t.cast("Values", _with_whole_images(deep_merge(parts, config["spec"]), defaults))


def _with_whole_images(node: t.Any, defaults: Values) -> t.Any:
    if not isinstance(node, dict):
        return node
    below = {key: _with_whole_images(value, defaults) for key, value in node.items()}
    return {
        key: defaults | value if key.lower().endswith("image") and isinstance(value, dict) else value
        for key, value in below.items()
    }


def is_config(item: JsonObject) -> bool:
    """Tell whether an object is the Config on which the operator acts."""
    return (item.get("apiVersion"), item.get("kind")) == CONFIG[:2]


def objects_in(manifests: t.Iterable[JsonObject], kinds: t.Collection[str]) -> list[JsonObject]:
    """Return the objects of some kinds that helm makes of a chart's manifests itself, not by a hook."""
    return [item for item in manifests if item["kind"] in kinds and HELM_HOOK not in annotations_of(item)]


def images_in(manifests: t.Sequence[JsonObject], hooks: bool) -> list[str]:
    """Return the images without which nothing is scheduled: of the pods that helm makes of a chart's manifests, and of the operator's.

    :arg hooks: whether the chart's hooks run.
    """
    images = []
    for item in manifests:
        hook = annotations_of(item).get(HELM_HOOK, "")
        if not hook or (hooks and "delete" not in hook):
            template = (item.get("spec") or {}).get("template") or {}
            images += [container["image"] for container in (template.get("spec") or {}).get("containers") or []]
    parts = (config_in(manifests) or {"spec": {}})["spec"]
    return list(dict.fromkeys([*images, *(image for part in CONFIG_PARTS for image in _images_of(parts.get(part) or {}))]))


def _images_of(part: Values) -> t.Iterator[str]:
    """Yield the images that a part of a Config names, unless it is off."""
    if (part.get("service") or {}).get("enabled") is False:
        return
    for value in part.values():
        if isinstance(value, dict):
            yield from [image] if (image := image_named(value)) else _images_of(value)


def image_named(image: Values) -> str:
    """Return the reference of an image as a Config names it; empty where this is none (pkg/apis/kai/v1/common/image.go)."""
    repository, name, tag = (image.get(key) for key in ("repository", "name", "tag"))
    return f"{repository}/{name}:{tag}" if repository and name and tag else ""


def pulling_pod(images: t.Sequence[str], values: Values) -> JsonObject:
    """Return a pod that has a node pull images and does nothing with them.

    :arg values: of the chart, for nodes with the taints that its own pods tolerate.
    """
    spec = pod_spec("", "")
    (container,) = spec["containers"]
    # An image need not have this program: it is there before its container fails to start. A tight quota has room for all of them.
    amounts = {"ephemeral-storage": "1Mi"}
    resources = {"requests": {"cpu": "1m", "memory": "4Mi"} | amounts, "limits": {"cpu": "10m", "memory": "16Mi"} | amounts}
    more = {"command": ["true"], "resources": resources}
    containers = [container | more | {"name": f"image-{index}", "image": image} for index, image in enumerate(images)]
    metadata = {"name": "kubegpu-images", "namespace": KAI_NAMESPACE, "labels": OWNED_LABELS}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec
        | {"restartPolicy": "Never", "containers": containers, "tolerations": value_at(values, "global.tolerations") or []},
    }


def _nested(settings: Values) -> Values:
    """Turn dotted keys into a tree."""
    values: Values = {}
    for path, value in settings.items():
        *groups, key = path.split(".")
        inner = values
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[key] = value
    return values


def ignored_values(values: Values, release: Release) -> list[str]:
    """Return which of a user's values the release's chart does not read any more, and what replaces them."""
    ignored = []
    for path, gone, new in RENAMED:
        if value_at(values, path) is not None and release.number >= gone:
            advice = f"Use {new}." if new else "Nothing replaces it."
            ignored.append(f"values.{path}: is not read by {release.version}. {advice}")
    return ignored
