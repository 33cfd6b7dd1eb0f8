# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The life of one Helm release: inspected, compared, previewed, repaired, applied, removed."""

from __future__ import annotations

import math
import typing as t

from .._common.values import Change, Values, Write, differences
from .._common.wait import Deadline
from .facts import INCOMPLETE, UNFINISHED

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart, Helm, Release
    from .._adapters.kubernetes import Kube


class HelmRelease:
    """One Helm release in one namespace.

    ``inspect`` comes first: everything else acts on what it read.

    :ivar found: the release as ``inspect`` read it, in its last revision; None where there was none. Writing does not change it, so
        that a run decides by the same facts as check mode.
    """

    def __init__(self, kube: Kube, helm: Helm, name: str, namespace: str) -> None:
        self.kube = kube
        self.helm = helm
        self.name = name
        self.namespace = namespace
        self.found: Release | None = None
        self._previewed: tuple[Chart, Values] | None = None
        # Whether this object ended what was found.
        self._ended = False

    def inspect(self) -> Release | None:
        """Read the release, in any state.

        :raises TenancyError: when it cannot be read, which is not the same as that there is none.
        """
        self.found = self.helm.release(self.name, self.namespace)
        self._ended = False
        return self.found

    @property
    def unfinished(self) -> bool:
        """Whether a killed run left the release in a state that ``repair`` ends."""
        return self.found is not None and self.found.status in UNFINISHED

    @property
    def write(self) -> Write | None:
        """The write of the revision that was found; None without one."""
        if self.found is None or not self.found.deployed_at:
            return None
        return Write(self.found.deployed_at, f"Helm, revision {self.found.revision}")

    def changes(self, version: str, values: Values) -> list[Change]:
        """List what differs between the live release and a chart's version and values.

        Every state but ``deployed`` is a difference: failed, uninstalled with its history kept, superseded by a revision whose
        record is gone, or unfinished.
        """
        if self.found is None:
            return [("version", None, version), ("values", None, values)]
        changes: list[Change] = []
        if self.found.status != "deployed":
            changes.append(("release", self.found.status, "deployed"))
        if self.found.chart_version != version:
            changes.append(("version", self.found.chart_version, version))
        return changes + differences(self.found.values, values)

    def preview(self, chart: Chart, values: Values, api_versions: t.Sequence[str] = ()) -> str:
        """Render the chart, so that what it refuses is refused before the first write; return its manifests.

        :arg api_versions: kinds of the cluster that the chart asks for, such as ``resource.k8s.io/v1/DeviceClass``.
        :raises TenancyError: with ``problems`` where its schema or its templates refuse the values.
        """
        more = {"api_versions": api_versions} if api_versions else {}
        manifests = self.helm.template(self.name, self.namespace, chart, values, **more)
        self._previewed = (chart, values)
        return manifests

    def repair(self, deadline: Deadline) -> None:
        """End the state that a killed run left, in which helm refuses to go on."""
        if self.found is None or not self.unfinished or self._ended:
            return
        if self.found.status in INCOMPLETE:
            # Without hooks: they are made for a release that was complete, and may be what the killed run waited for.
            self.helm.uninstall(self.name, self.namespace, math.floor(deadline.left()), hooks=False)
        else:
            # Without the record of the pending revision helm goes on from the one before it.
            self.kube.delete("v1", "Secret", self.found.record, self.namespace)
        self._ended = True

    def apply(self, chart: Chart, values: Values, deadline: Deadline, hooks: bool = True) -> None:
        """Install or upgrade the release with exactly these values, after ``preview`` and, where needed, ``repair``.

        :arg hooks: whether the chart's own hooks run.
        """
        if self._previewed != (chart, values):
            self.preview(chart, values)
        self.repair(deadline)
        self.helm.upgrade(self.name, self.namespace, chart, values, math.floor(deadline.left()), hooks=hooks)

    def remove(self, deadline: Deadline, hooks: bool = True) -> None:
        """Uninstall the release with its history, in any state; do nothing where there is none.

        :arg hooks: whether the chart's own hooks run.
        """
        if self.found is None:
            return
        self.helm.uninstall(self.name, self.namespace, math.floor(deadline.left()), hooks=hooks)
        self._ended = True
