# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The life of one Helm release: inspected, compared, previewed, repaired, applied, removed; and what others changed of its objects."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing as t

from .._common.errors import ApiError, WaitTimeout
from .._common.ownership import last_write
from .._common.secrets import digest
from .._common.text import legible, shown
from .._common.values import Change, JsonObject, Values, Write, differences, merge_patch
from .._common.wait import Deadline
from .facts import INCOMPLETE, MANAGED_BY_HELM, RELEASE_NOTES, UNFINISHED
from .plan import as_wanted, changes_between
from .values import Release, comparable, last_record, objects_of, release_of

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart, Helm
    from .._adapters.kubernetes import Kube
    from .._common.run import Run

# Returns an object of a chart as it is kept on the cluster, by that and by the live one.
Adapt = t.Callable[[JsonObject, JsonObject], JsonObject]


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

        Helm's own ``get`` takes as long for each release as all else that is read of it.

        :raises TenancyError: when it cannot be read, which is not the same as that there is none.
        """
        record = last_record(self.kube.list("v1", "Secret", self.namespace, f"owner=helm,name={self.name}"), self.name)
        self.found = release_of(record, self.name, self.namespace) if record else None
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


@dataclasses.dataclass(frozen=True)
class Edit:
    """An object of a release that is not as the chart made it.

    :ivar item: as it has to be; ``live``, as it is, None where it is gone.
    :ivar body: merge patch that takes the edit back.
    :ivar changes: each path with its value now and as it has to be.
    """

    item: JsonObject
    live: JsonObject | None
    body: JsonObject
    changes: list[Change]

    @property
    def what(self) -> str:
        return _named(self.item)

    @property
    def write(self) -> Write | None:
        """The last write of what differs."""
        return last_write(self.live, *(path.partition("[")[0].split(".") for path, _before, _after in self.changes))


def _named(item: JsonObject) -> str:
    return shown(f"{item['kind']} {item['metadata']['name']}")


class Edits:
    """What others changed of the objects of a release since its chart was applied. Defaults, and what a chart leaves open, are no edits.

    :arg release: read already.
    :arg adapt: for objects of which this collection keeps a part otherwise than the chart.
    """

    def __init__(self, run: Run, release: HelmRelease, adapt: Adapt = lambda item, _live: item) -> None:
        self.run = run
        self.kube = run.kube
        self.release = release
        self._adapt = adapt
        # Live objects by their names, of each kind and namespace.
        self._listed: dict[tuple[str, str, str], dict[str, JsonObject]] = {}

    def take_back(self) -> bool:
        """Undo each edit, in check mode only say so; return whether there were any."""
        found = self.find()
        for edit in found:
            before, after = ({shown(path): legible(one[side]) for path, *one in edit.changes} for side in (0, 1))
            self.run.change(edit.what, before if edit.live else None, after, edit.write)
            why = "it is gone" if edit.live is None else shown(f"it is not as its chart made it: {', '.join(before)}")
            self.run.perform(f"take back what was changed of {edit.what}", why, functools.partial(self._write, edit))
        return bool(found)

    def find(self) -> list[Edit]:
        """Return the edits of a release that is deployed."""
        found = self.release.found
        if found is None or found.status != "deployed":
            return []
        edits = []
        for item in objects_of(found):
            if not self.run.deadline.left(0):
                raise WaitTimeout(f"The time was over before {_named(item)} was compared.", last_seen="")
            if item["kind"] != "CustomResourceDefinition" and (edit := self._edit(item)):
                edits.append(edit)
        return edits

    def _edit(self, item: JsonObject) -> Edit | None:
        namespace = item["metadata"].get("namespace") or self.release.namespace
        live = self._live(item["apiVersion"], item["kind"], item["metadata"]["name"], namespace)
        if live is None:
            return Edit(self._whole(item, namespace), None, {}, [("state", "absent", "present")])
        body, tried = self._tried(self._adapt(item, live), live)
        changes = list(changes_between(comparable(live), tried)) if body else []
        if item["kind"] == "Secret":
            changes = [(path, digest(before), digest(after)) for path, before, after in changes]
        return Edit(item, live, body, changes) if changes else None

    def _live(self, api_version: str, kind: str, name: str, namespace: str) -> JsonObject | None:
        """Return an object as it is; None where it is gone."""
        place = (api_version, kind, namespace)
        if place not in self._listed:
            listed = self.kube.list(*place, MANAGED_BY_HELM)
            self._listed[place] = {item["metadata"]["name"]: item for item in listed}
        # It may have lost the label, too.
        return self._listed[place].get(name) or self.kube.get(*place[:2], name, namespace) or self.kube.get(*place[:2], name)

    def _tried(self, item: JsonObject, live: JsonObject) -> tuple[JsonObject, JsonObject]:
        """Return the patch that takes back what was changed of an object, and what the API server would make of it."""
        now = comparable(live)
        attempts = []
        # First with all that the chart leaves out, which the API server refuses where it belongs to another type.
        for exact in (False, True):
            wanted = as_wanted(item, live, exact)
            body = merge_patch(now, wanted)
            attempts.append((body, wanted))
            if not body:
                break
            try:
                # The API server fills in defaults, and writes amounts in its own way.
                place = live["metadata"].get("namespace")
                tried = self.kube.patch(item["apiVersion"], item["kind"], item["metadata"]["name"], body, place, dry_run="All")
                return body, comparable(tried)
            except ApiError as exc:
                if exc.status != 422:
                    raise
        return attempts[0]

    def _whole(self, item: JsonObject, namespace: str) -> JsonObject:
        """Return an object that is gone, as helm makes it."""
        metadata = item["metadata"]
        notes = dict(zip(RELEASE_NOTES, (self.release.name, self.release.namespace)))
        return item | {
            "metadata": metadata | {"namespace": namespace, "annotations": (metadata.get("annotations") or {}) | notes}
        }

    def _write(self, edit: Edit) -> None:
        if edit.live is None:
            self.kube.create(edit.item)
            return
        metadata = edit.live["metadata"]
        self.kube.patch(edit.live["apiVersion"], edit.live["kind"], metadata["name"], edit.body, metadata.get("namespace"))
