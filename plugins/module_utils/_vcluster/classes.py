# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""List the host's runtime and storage classes for tenants of trust zero, and no longer when there is none."""

from __future__ import annotations

import typing as t

from .._common.errors import refuse
from .._common.ownership import OWNED_SELECTOR, labels_of, last_write, own
from .._common.values import JsonObject
from .facts import CLASSES, LISTED_BASIC, LISTED_CLASS, RUNTIME_CLASS
from .status import classes_to_list, is_zero_trust
from .validation import missing_sandbox

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.run import Run


def runtime_classes(kube: Kube) -> list[str]:
    """Return the names of a cluster's RuntimeClasses."""
    return [item["metadata"]["name"] for item in kube.list(*RUNTIME_CLASS)]


class ListedClasses:
    """The classes that tenants of trust zero may use, by a label.

    Tenants are made and removed at the same time, and a run may be killed anywhere. So a tenant's namespace says that the tenant needs
    the classes before they are listed for it, and a run that takes the label away looks for such namespaces before and afterwards.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def check_sandbox(self, name: str, tenant: str) -> None:
        """Refuse a RuntimeClass for all pods of a tenant that the host cluster lacks.

        :raises Refused: if there is none of that name.
        """
        if problem := missing_sandbox(name, tenant, runtime_classes(self.run.kube)):
            refuse([problem])

    def ensure_listed(self) -> None:
        """List the classes that every tenant of trust zero needs, once its namespace exists."""
        missing = classes_to_list([item for kind in CLASSES for item in own(self.run.kube.list(*kind))])
        for item in missing:
            self.run.change(_name(item), None, LISTED_BASIC)
        if missing:
            names = ", ".join(map(_name, missing))
            self.run.perform(f"list {names}", "tenants of trust zero need them", lambda: self._label(missing, LISTED_BASIC))

    def remove_unneeded(self, leaving: str = "") -> None:
        """Take the label off the classes that this collection listed, where no tenant of trust zero is left.

        :arg leaving: a namespace that does not count, because it is about to be removed.
        """
        selector = f"{LISTED_CLASS}={LISTED_BASIC}"
        listed = [item for kind in CLASSES for item in self.run.kube.list(*kind, None, selector)]
        if not listed or self._needed(leaving):
            return
        for item in listed:
            write = last_write(item, ("metadata", "labels", LISTED_CLASS))
            self.run.change(_name(item), labels_of(item)[LISTED_CLASS], None, write)
        names = ", ".join(map(_name, listed))
        self.run.perform(f"no longer list {names}", "no tenant of trust zero is left", lambda: self._remove(listed, leaving))

    def _remove(self, listed: list[JsonObject], leaving: str) -> None:
        self._label(listed, None)
        # A tenant that was made meanwhile may have seen them still listed.
        if self._needed(leaving):
            self._label(listed, LISTED_BASIC)

    def _needed(self, leaving: str) -> bool:
        namespaces = self.run.kube.list("v1", "Namespace", None, OWNED_SELECTOR)
        return any(is_zero_trust(item) for item in namespaces if item["metadata"]["name"] != leaving)

    def _label(self, classes: list[JsonObject], value: str | None) -> None:
        for item in classes:
            body = {"metadata": {"labels": {LISTED_CLASS: value}}}
            self.run.kube.patch(item["apiVersion"], item["kind"], item["metadata"]["name"], body)


def _name(item: JsonObject) -> str:
    return f"{item['kind']} {item['metadata']['name']}"
