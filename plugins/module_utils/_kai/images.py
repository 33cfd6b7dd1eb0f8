# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Have the images of a release of KAI Scheduler on a node before it takes the place of what is installed."""

from __future__ import annotations

import functools
import typing as t

from .._common.errors import TenancyError
from .._common.names import KAI_NAMESPACE
from .._common.values import Values
from .._common.wait import wait_for
from .status import images_on, pulled
from .values import pulling_pod

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


def missing(kube: Kube, images: t.Iterable[str]) -> tuple[str, ...]:
    """Return which of the images no node has."""
    present = images_on(kube.list("v1", "Node"))
    return tuple(image for image in images if image not in present)


def pull(run: Run, images: t.Sequence[str], values: Values) -> None:
    """Have a node pull images.

    :arg values: of the chart.
    :raises TenancyError: when one does not come within two thirds of the time that is left.
    """
    pod = pulling_pod(images, values)
    name = pod["metadata"]["name"]
    seen = functools.partial(run.kube.get, "v1", "Pod", name, KAI_NAMESPACE)
    if run.kube.delete("v1", "Pod", name, KAI_NAMESPACE):
        wait_for("the end of a killed run's pod", lambda: (seen() is None or None, "it is there"), run.deadline)
    try:
        run.kube.create(pod)
    except TenancyError as exc:
        # A webhook that does not answer, for example, is what this change may mend.
        run.warn(f"Whether the images can be pulled was not tried: {exc.message}")
        return
    try:
        wait_for(f"the images {', '.join(images)}", lambda: pulled(seen()), run.deadline.share(2 / 3))
    finally:
        run.kube.delete("v1", "Pod", name, KAI_NAMESPACE)
