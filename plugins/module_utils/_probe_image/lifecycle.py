# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Run the probe of images."""

from __future__ import annotations

import contextlib
import typing as t

from .._common.errors import WaitTimeout
from .._common.values import JsonObject
from .._common.wait import Deadline, wait_for
from .._probe.lifecycle import own_namespace
from .._probe.status import record
from .plan import IMAGE_NOTE, Settings, manifest
from .status import outcome

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube


def probe(kube: Kube, settings: Settings, deadline: Deadline) -> list[JsonObject]:
    """Pull all images at once, and return the record of each, in their order."""
    images = list(dict.fromkeys(settings.images))
    records: dict[str, JsonObject] = {}

    def observe() -> tuple[bool | None, str]:
        pods = {pod["metadata"]["annotations"][IMAGE_NOTE]: pod for pod in kube.list("v1", "Pod", settings.namespace)}
        awaited = []
        for image in [image for image in images if image not in records]:
            verdict, reason = outcome(pods[image]) if image in pods else ("failed", "somebody removed its pod")
            if verdict:
                records[image] = record(image, verdict, reason, deadline.elapsed())
            else:
                awaited.append(f"{image}: {reason}")
        return (None, "; ".join(awaited)) if awaited else (True, "")

    if not images:
        return []
    with own_namespace(kube, settings.namespace, deadline):
        for image in images:
            kube.create(manifest(settings, image))
        with contextlib.suppress(WaitTimeout):
            wait_for("the images to be pulled", observe, deadline, interval=0.5)
    late = f"it was not pulled within {deadline.seconds:g} seconds"
    return [records.get(image) or record(image, "failed", late, deadline.elapsed()) for image in images]
