# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Images in what charts make, and the names of images. Pure functions."""

from __future__ import annotations

import base64
import dataclasses
import re
import typing as t
import urllib.parse

from .._common.documents import load_document
from .._common.names import CONFIG_SECRET, HELM_HOOK
from .._common.ownership import annotations_of
from .._common.quantity import whole
from .._common.values import JsonObject, Values, value_at
from .._kai.facts import CONFIG_PARTS
from .._kai.values import config_spec, image_named, is_config
from .._kind.plan import holds_api
from .._vcluster.facts import COREDNS, COREDNS_REPOSITORY, NEWEST_KUBERNETES, parse_version
from .._vcluster.values import added_image, has_dns
from .facts import DEFAULT_REGISTRY, DEFAULT_REGISTRY_API, FORMER_REGISTRY, SANDBOX_PARTS

# Images, and whether an installation starts each of them, or only something that may happen later does.
Images = dict[str, bool]

# How a container is told the image of pods that it makes, as KAI Scheduler's binder up to v0.8.
_ARGUMENT = re.compile(r"--[\w-]*image=(\S+)")


def images_named(manifests: t.Sequence[JsonObject], hooks: bool = True) -> Images:
    """Return the images that a chart's manifests name: of pods, and of what an operator makes of its configuration.

    :arg hooks: whether the chart's hooks run when it is installed.
    """
    found: list[tuple[str, bool]] = []
    for item in manifests:
        if is_config(item):
            continue
        hook = annotations_of(item).get(HELM_HOOK, "")
        starts = not hook or (hooks and "delete" not in hook)
        found += [(image, starts) for image in _images(_without_sandbox(item))]
    found += [(image, name in CONFIG_PARTS) for name, part in config_spec(manifests).items() for image in _images(part)]
    return merged(found)


def merged(found: t.Iterable[tuple[str, bool]]) -> Images:
    """Return each image once, by its whole name; started where any says so."""
    images: Images = {}
    for image, starts in found:
        name = str(Reference.parse(image))
        images[name] = images.get(name, False) or starts
    return images


def _images(node: t.Any) -> t.Iterator[str]:
    """Yield the images that a tree names, but for those of parts that are switched off."""
    if isinstance(node, str):
        if match := _ARGUMENT.fullmatch(node):
            yield match[1]
    elif isinstance(node, list):
        for item in node:
            yield from _images(item)
    elif isinstance(node, dict) and not _is_off(node):
        if image := _image_of(node):
            yield image
        for value in node.values():
            yield from _images(value)


def _is_off(node: JsonObject) -> bool:
    return any(isinstance(part, dict) and part.get("enabled") is False for part in (node, node.get("service")))


def _image_of(node: JsonObject) -> str:
    """Return the image of a container, of a part of KAI's Config or of one of the GPU operator's ClusterPolicy; empty for none."""
    image, repository, version = (node.get(key) for key in ("image", "repository", "version"))
    if not isinstance(image, str):
        return image_named(node)
    if repository and version:
        # internal/image/image.go of the GPU operator.
        return f"{repository}/{image}{'@' if str(version).startswith('sha256:') else ':'}{version}"
    return image if "name" in node else ""


def _without_sandbox(item: JsonObject) -> JsonObject:
    if item.get("kind") != "ClusterPolicy" or value_at(item, "spec.sandboxWorkloads.enabled") is True:
        return item
    return item | {"spec": {name: part for name, part in item["spec"].items() if name not in SANDBOX_PARTS}}


# --- what a virtual cluster starts --------------------------------------------------------------------------------


def syncer_images(manifests: t.Iterable[JsonObject], version: str) -> Images:
    """Return the images that vCluster's syncer starts, which no manifest of the chart names: by the configuration that it gets.

    :arg version: of the chart.
    """
    (secret,) = (item for item in manifests if item["kind"] == "Secret" and item["metadata"]["name"].startswith(CONFIG_SECRET))
    config: Values = load_document(base64.b64decode(secret["data"]["config.yaml"]))
    registry = str(value_at(config, "controlPlane.advanced.defaultImageRegistry") or "").rstrip("/")
    found = []
    if has_dns(config) and not value_at(config, "controlPlane.coredns.embedded"):
        own = value_at(config, "controlPlane.coredns.deployment.image")
        found.append(("/".join(filter(None, [registry, own or _coredns(config, version)])), True))
    if added := added_image(config):
        # No playbook starts a pod with it, and without the image no pod of a StatefulSet with a serviceName starts.
        found.append((added, True))
    return merged(found)


def _coredns(config: Values, version: str) -> str:
    """Return the image of CoreDNS, whose version follows from that of Kubernetes."""
    distro = value_at(config, "controlPlane.distro.k8s") or {}
    kubernetes = re.match(r"v?1\.(\d{1,9})", str(distro.get("version") or value_at(distro, "image.tag")))
    newest = [known for since, known in NEWEST_KUBERNETES.items() if since <= parse_version(version)[1]][-1]
    minor = whole(kubernetes[1]) if kubernetes else newest
    return f"{COREDNS_REPOSITORY}:{COREDNS[minor if minor in COREDNS and minor <= newest else newest]}"


# --- names of images ----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Reference:
    """The whole name of an image.

    :ivar version: its tag, or its digest with the algorithm in front.
    """

    registry: str
    repository: str
    version: str

    @classmethod
    def parse(cls, image: str) -> Reference:
        """Return the whole name for one that may leave out registry, ``library/`` or tag (distribution/reference, normalize.go)."""
        name, _at, digest = image.partition("@")
        first, slash, rest = name.partition("/")
        # A repository has no upper case.
        if not slash or not (set(".:") & set(first) or first == "localhost" or first != first.lower()):
            first, rest = DEFAULT_REGISTRY, name
        if first in (DEFAULT_REGISTRY, FORMER_REGISTRY):
            first, rest = DEFAULT_REGISTRY, rest if "/" in rest else f"library/{rest}"
        repository, _colon, tag = rest.partition(":")
        return cls(first, repository, digest or tag or "latest")

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}{'@' if ':' in self.version else ':'}{self.version}"

    def manifest_url(self, mirrors: t.Mapping[str, str]) -> str:
        """Return the address of the manifest, at the mirror of the registry where it has one.

        :arg mirrors: addresses by registry, as the nodes are given them.
        """
        if mirror := mirrors.get(self.registry):
            api = mirror.rstrip("/") if holds_api(mirror) else f"{mirror.rstrip('/')}/v2"
        else:
            host = DEFAULT_REGISTRY_API if self.registry == DEFAULT_REGISTRY else self.registry
            # As Docker and containerd do.
            plain = urllib.parse.urlsplit(f"//{host}").hostname in ("localhost", "127.0.0.1")
            api = f"{'http' if plain else 'https'}://{host}/v2"
        return f"{api}/{self.repository}/manifests/{self.version}"
