# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan the probe of images: a pod for each image, which ends at once."""

from __future__ import annotations

import dataclasses

from .._common.pods import pod_spec
from .._common.values import JsonObject

NAME = "kubegpu-image-probe"
# The image that a pod is for.
IMAGE_NOTE = "kubegpu.tenancy/image"


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the probe runs.

    :ivar images: to pull, by whole names or short ones.
    """

    namespace: str
    images: list[str]
    tolerations: list[JsonObject]


def manifest(settings: Settings, image: str) -> JsonObject:
    """Return the pod for an image. It need not have a shell: what the container does tells nothing."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "image-", "namespace": settings.namespace, "annotations": {IMAGE_NOTE: image}},
        "spec": pod_spec(image, "exit 0") | {"restartPolicy": "Never", "tolerations": settings.tolerations},
    }
