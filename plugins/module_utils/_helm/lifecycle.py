# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The life of one Helm release: inspected, compared, previewed, repaired, applied, removed."""

from __future__ import annotations

import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Change, Values, differences
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline

if t.TYPE_CHECKING:
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart, Helm, Release
    from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube

# States that helm leaves behind when it is killed (helm status --help).
UNFINISHED = frozenset({"pending-install", "pending-upgrade", "pending-rollback", "uninstalling"})
# Of these, the ones in which nothing of the release may be there yet, or any more.
INCOMPLETE = frozenset({"pending-install", "uninstalling"})


class HelmRelease:
    """One Helm release in one namespace.

    :arg found: the release as it was found; None where there is none. ``inspect`` finds it.
    """

    def __init__(self, kube: Kube, helm: Helm, name: str, namespace: str) -> None:
        self.kube = kube
        self.helm = helm
        self.name = name
        self.namespace = namespace
        self.found: Release | None = None

    def inspect(self) -> Release | None:
        """Read the release, whatever its state."""
        self.found = self.helm.release(self.name, self.namespace)
        return self.found

    def changes(self, version: str, values: Values) -> list[Change]:
        """List what differs between the release that was found and a chart's version and values."""
        if self.found is None:
            return [("version", None, version), ("values", None, values)]
        changes: list[Change] = []
        if self.found.status != "deployed":
            changes.append(("release", self.found.status, "deployed"))
        if self.found.chart_version != version:
            changes.append(("version", self.found.chart_version, version))
        return changes + differences(self.found.values, values)

    def preview(self, chart: Chart, values: Values) -> str:
        """Render the chart, so that what it refuses is refused before the first write; return its manifests.

        :raises TenancyError: with ``problems`` where its schema or its templates refuse the values.
        """
        return self.helm.template(self.name, self.namespace, chart, values)

    def repair(self, deadline: Deadline, hooks: bool = True) -> None:
        """Undo what a killed run left unfinished; helm refuses to go on otherwise.

        :arg hooks: as of ``remove``.
        """
        if self.found is None or self.found.status not in UNFINISHED:
            return
        if self.found.status in INCOMPLETE:
            self.remove(deadline, hooks)
            return
        # Without the record of the pending revision helm goes on from the last one that was deployed.
        self.kube.delete("v1", "Secret", self.found.record, self.namespace)

    def apply(self, chart: Chart, values: Values, deadline: Deadline) -> None:
        """Repair the release where it needs that, then install or upgrade it with exactly these values."""
        self.repair(deadline)
        self.helm.upgrade(self.name, self.namespace, chart, values, int(deadline.left()))

    def remove(self, deadline: Deadline, hooks: bool = True) -> None:
        """Uninstall the release where there is one.

        :arg hooks: whether the chart's own hooks run.
        """
        if self.found is not None:
            self.helm.uninstall(self.name, self.namespace, int(deadline.left()), hooks=hooks)
            self.found = None
