# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Take a backup of one virtual cluster by a snapshot of vCluster's own, and restore one in its place."""

from __future__ import annotations

import typing as t

from .._common.errors import ApiError, Superseded, TenancyError, refusal
from .._common.ownership import annotations_of
from .._common.pods import image_tag, is_ready, pod_state
from .._common.quantity import whole
from .._common.text import shown
from .._common.values import JsonObject, stamp, utc_now
from .._common.versions import number
from .._common.wait import wait_for
from .._kubeconfig import values as kubeconfig
from .._vcluster.control_plane import SETTLING, Readiness
from .._vcluster.facts import RESTORING
from .._vcluster.inventory import configs
from .._vcluster.operation import Operation
from .._vcluster.status import describe, is_paused
from .._vcluster.values import kubernetes_of, pause_patch, resume_patch
from .facts import (
    ARCHIVE,
    BACKUP_AT,
    BACKUP_RUN,
    COMMAND_SECONDS,
    CONTAINER,
    FORMAT,
    FORMER_DATABASE,
    LARGEST,
    POD_END,
    RESTORE_POD,
)
from .placement import Placement
from .status import counted, finished, kubernetes_in, request_name
from .validation import check_versions, has_versions
from .values import claim_of, file_stamp, restore_pod, shell, snapshot_command
from .volumes import Volumes

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._adapters.snapshot_file import SnapshotFile
    from .._common.run import Run
    from .._vcluster.control_plane import Ask, ControlPlane


def _kubernetes(plane: ControlPlane, found: JsonObject) -> str | None:
    """Return the version of a virtual cluster's Kubernetes, such as v1.35.4, by its images, else by its values; None where neither names it.

    :arg found: as ``describe`` returns it.
    """
    tags = (found["kubernetes_version"], image_tag(found["images"].get("kubernetes", "")))
    if named := next(filter(None, map(kubernetes_in, tags)), None):
        return named
    # An image that is named by its digest alone.
    values = configs(plane.kube).read.get(f"{plane.namespace}/{plane.name}")
    return kubernetes_in(kubernetes_of(found["version"], values)) if values and number(found["version"]) else None


def _with_volume(plane: ControlPlane, advice: str) -> JsonObject:
    """Return the StatefulSet of a virtual cluster, whose volume has its database.

    :arg advice: what to do where there is none.
    :raises Refused: where there is none, or its data are in another store.
    """
    workload = plane.workload()
    if workload is None:
        raise refusal("no-tenant", f"There is no virtual cluster {plane.name} in namespace {plane.namespace}.{advice}")
    if workload["kind"] != "StatefulSet":
        raise refusal(
            "another-store",
            f"The control plane of {plane.name} keeps its data in another store (controlPlane.backingStore), and backups are of the database on "
            "its own volume. Back that store up by its own means.",
        )
    return workload


class Container:
    """A container of the control plane, or of the pod that restores one."""

    def __init__(self, run: Run, pod: str, namespace: str) -> None:
        self._run = run
        self._pod = pod
        self._namespace = namespace

    def execute(self, what: str, command: list[str], seconds: float = COMMAND_SECONDS, **streams: t.Any) -> None:
        """Run a command to its end.

        :arg what: for an error, such as "Deleting the archive".
        :arg streams: ``write`` and ``stdin`` of ``Pods.execute``.
        :raises TenancyError: where the command fails, with the end of what it wrote to its standard error.
        """
        ended = self._run.kube.pods.execute(what, self._pod, self._namespace, CONTAINER, command, seconds, **streams)
        if ended.rc:
            raise TenancyError(f"{what} failed in Pod {self._pod}: {ended.message}. {shown(ended.stderr[-500:])}".rstrip())

    def output(self, what: str, command: list[str]) -> str:
        """Return what a command prints; errors as of ``execute``."""
        pieces: list[str] = []
        self.execute(what, command, write=pieces.append)
        return "".join(pieces)

    def checksum(self) -> tuple[int, str]:
        """Return the size of the archive in bytes, and its SHA-256.

        :raises TenancyError: where there is none.
        """
        script = f"wc -c < {ARCHIVE}; sha256sum < {ARCHIVE}"
        size, digest, *_rest = (*self.output("Reading the checksum of the archive", shell(script)).split(), "", "")
        return (whole(size) if size.isdecimal() else 0), digest


class Backup:
    """Takes backups of one virtual cluster.

    :arg labels: of the snapshots of volumes: the tenant, and the run.
    """

    def __init__(self, run: Run, plane: ControlPlane, labels: dict[str, str]) -> None:
        self.run = run
        self.plane = plane
        self.labels = labels
        self.volumes = Volumes(run, plane.namespace)

    def save(self, file: SnapshotFile) -> JsonObject:
        """Have the control plane make a snapshot, and bring that into a file.

        :returns: the record of the backup, see ``docs/reference``; without checksum and contents in check mode.
        :raises TenancyError: where the virtual cluster does not run, or any step fails. The file is then worth nothing.
        """
        record, (classes, left_out) = self._described(), self.volumes.classes()
        record |= {"volumes": [], "volumes_left_out": left_out}
        self.run.change("backup", None, record["at"])

        def save_volumes() -> None:
            record["volumes"] = self.volumes.save(classes, self.labels | {BACKUP_AT: file_stamp(record["at"])})
            record["run"] = self.labels[BACKUP_RUN]

        try:
            self.run.perform("make a snapshot", "a backup is taken", self._snapshot)
            if classes:
                self.run.perform(
                    f"make snapshots of {len(classes)} volumes", "their storage has a class for snapshots", save_volumes
                )
            self.run.perform(
                "bring the archive", "the volume of the control plane goes with its tenant", lambda: self._bring(file)
            )
        finally:
            if not self.run.check_mode:
                self._clear()
        if self.run.check_mode:
            return record
        size, digest = file.checksum()
        return record | {"size": size, "sha256": digest, "objects": counted(file.names())}

    def _described(self) -> JsonObject:
        """Return what is known of the virtual cluster before its snapshot is made."""
        workload = _with_volume(self.plane, "")
        if is_paused(workload):
            raise refusal(
                "paused-tenant",
                f"Virtual cluster {self.plane.name} is paused, and only one that runs makes a snapshot. Its newest backup still holds what it "
                "had when it was paused; otherwise resume it, with state present and site.",
            )
        found = describe(workload, None, {}, self.plane.pods(), [])
        if found["state"] != "running":
            raise refusal("tenant-not-ready", f"The control plane of {self.plane.name} is not ready: {found['reason']}.")
        record = {
            "format": FORMAT,
            "tenant": self.plane.name,
            "at": utc_now().isoformat(timespec="seconds"),
            "version": found["version"],
            "kubernetes_version": _kubernetes(self.plane, found),
        }
        if not has_versions(record):
            raise refusal(
                "unknown-version",
                f"Neither images nor values of virtual cluster {self.plane.name} name the version of its vCluster or Kubernetes, by which a "
                "restore is checked. Write vcluster.kubernetes_version, run site, and repeat the backup.",
            )
        return record

    def _container(self) -> Container:
        ready = [pod for pod in self.plane.pods() if is_ready(pod)]
        if not ready:
            raise TenancyError(f"No pod of the control plane of {self.plane.name} is ready any more.")
        return Container(self.run, ready[0]["metadata"]["name"], self.plane.namespace)

    def _snapshot(self) -> None:
        printed = self._container().output("Asking for a snapshot", snapshot_command("snapshot", "create"))
        name = request_name(printed)
        try:
            wait_for(
                f"the snapshot of virtual cluster {self.plane.name}",
                lambda: finished(self.run.kube.get("v1", "ConfigMap", name, self.plane.namespace)),
                self.run.deadline,
            )
        finally:
            self._drop_request(name)

    def _drop_request(self, name: str) -> None:
        """Delete a request; a snapshot that is under way ends with it. vCluster deletes one that stays within a day."""
        try:
            for kind in ("ConfigMap", "Secret"):
                self.run.kube.delete("v1", kind, name, self.plane.namespace)
        except TenancyError as exc:
            self.run.warn(exc.message)

    def _bring(self, file: SnapshotFile) -> None:
        container = self._container()
        there = container.checksum()
        take = file.receive(LARGEST)
        container.execute("Reading the archive", ["base64", ARCHIVE], self.run.deadline.left(), write=take)
        take("")
        if (here := file.checksum()) != there:
            raise TenancyError(f"The archive arrived with another checksum: {here} in place of {there}.")

    def _clear(self) -> None:
        """Delete the archive from the control plane's volume; one that stays is overwritten by the next backup."""
        try:
            self._container().execute("Deleting the archive", ["rm", "-f", ARCHIVE])
        except TenancyError as exc:
            self.run.warn(f"{exc.message} The archive still takes room on the volume of {self.plane.name}.")


class Restoration:
    """Restores one virtual cluster in its place: what it had is replaced.

    While that is under way, the workload carries the annotation RESTORING, and nothing else starts the control plane: a run that was cut off
    is repeated as a whole.

    :arg ask: one request of the virtual cluster's API server; ``connect``, an adapter to that server. Both by a kubeconfig.
    :arg every_volume: whether volumes get their data back whose claims are there, too.
    """

    def __init__(
        self, run: Run, plane: ControlPlane, ask: Ask, connect: t.Callable[[JsonObject], Kube], every_volume: bool = False
    ) -> None:
        self.run = run
        self.plane = plane
        self.connect = connect
        self.every_volume = every_volume
        self.volumes = Volumes(run, plane.namespace)
        self.operation = Operation(run, plane, ask)
        # Whether a command that replaces the database was begun, and did not say how it ended.
        self._uncertain = False

    def restore(self, file: SnapshotFile, record: JsonObject) -> JsonObject:
        """End the control plane, replace its database, start the control plane again, and wait until clients can use it.

        :arg record: of the backup.
        :returns: ``server`` and ``kubernetes_version``, as ``Readiness.probe``; nothing in check mode.
        :raises TenancyError: where it cannot be restored; with the former database, it runs then, unless a restore was cut off before.
        """
        workload, began = self._checked(record), stamp(utc_now())
        volumes = self._chosen(record)
        self.run.change("content", "as it is", f"as of {record['at']}")
        try:
            self.run.perform("end the control plane", "its database is replaced", lambda: self._end(workload, record["sha256"]))
            self._replace_with(workload, file, record)
            self._restore_volumes(volumes)
        except Superseded:
            # The controller has gone; a new run begins anew.
            raise
        except TenancyError as exc:
            raise exc.saying(f"{exc.message.rstrip('.')}. {self._put_back(workload)}") from exc
        self.run.perform("start the control plane", "its database is restored", self._resume)
        if self.run.check_mode:
            return {}
        ready = self._wait()
        self._schedule_again(ready.get("server"), began)
        return ready

    def _replace_with(self, workload: JsonObject, file: SnapshotFile, record: JsonObject) -> None:
        container = Container(self.run, RESTORE_POD, self.plane.namespace)
        self.run.perform(
            "start the pod that restores", "it needs the volume of the control plane", lambda: self._start_pod(workload)
        )
        self.run.perform("send the archive", "the backup is restored", lambda: self._send(container, file, record))
        self.run.perform("restore the database", "the backup is restored", lambda: self._replace(container))
        self.run.perform("remove the pod that restored", "the control plane needs its volume", self._remove_pod)

    def _checked(self, record: JsonObject) -> JsonObject:
        workload = _with_volume(self.plane, " Make it with site before, with the versions of the backup.")
        found = describe(workload, None, {}, [], [])
        check_versions(record, found["version"], _kubernetes(self.plane, found))
        return workload

    def _chosen(self, record: JsonObject) -> list[JsonObject]:
        """Return the volumes that get their data back."""
        if record["tenant"] == self.plane.name:
            return self.volumes.chosen(record, self.every_volume)
        if record.get("volumes"):
            self.run.warn(
                f"Volumes of {record['tenant']} are restored into that tenant alone. In {self.plane.name}, they will be empty."
            )
        return []

    def _restore_volumes(self, volumes: list[JsonObject]) -> None:
        # With the database restored, the tenant stays down until they are, too.
        if volumes:
            why = f"the backup has snapshots of {shown(', '.join(volume['claim']['name'] for volume in volumes))}"
            self.run.perform(f"restore {len(volumes)} volumes", why, lambda: self.volumes.restore(volumes))

    def _end(self, workload: JsonObject, digest: str) -> None:
        # For others it is paused; after a restore that was cut off, it is already.
        patch: JsonObject = {"metadata": {}} if is_paused(workload) else pause_patch(workload, utc_now())
        patch["metadata"].setdefault("annotations", {})[RESTORING] = digest
        self.operation.scale(workload, patch)
        self.operation.wait_for_rest()

    def _put_back(self, workload: JsonObject) -> str:
        """Start the control plane with the former database, and return the outcome as a sentence.

        :arg workload: as it was before the restore.
        """
        again = f"Tenant {self.plane.name} stays down until it is restored again."
        if self._uncertain or RESTORING in annotations_of(workload):
            return f"Whether its database and its volumes are whole is not known. {again}"
        try:
            self._remove_pod()
            self._resume()
        except TenancyError as exc:
            return f"Nothing was restored, and the tenant cannot be started as before: {exc.message.rstrip('.')}. {again}"
        return f"Nothing was restored: tenant {self.plane.name} runs as before."

    def _start_pod(self, workload: JsonObject) -> None:
        self._remove_pod()
        claim = claim_of(workload)
        if claim and self.run.kube.get("v1", "PersistentVolumeClaim", claim["metadata"]["name"], self.plane.namespace) is None:
            # The StatefulSet makes it again only with a pod of its own.
            self.run.kube.create(claim)
        self.run.kube.create(restore_pod(workload, claim["metadata"]["name"] if claim else None))

        def ready() -> tuple[bool | None, str]:
            pod = self.run.kube.get("v1", "Pod", RESTORE_POD, self.plane.namespace)
            return (True, "") if is_ready(pod) else (None, pod_state(pod) if pod else "it does not exist any more")

        wait_for(f"pod {RESTORE_POD} of tenant {self.plane.name}", ready, self.run.deadline)

    def _send(self, container: Container, file: SnapshotFile, record: JsonObject) -> None:
        # The protocol has no end of what a command reads: four characters of base64 for three bytes.
        size = -(-record["size"] // 3) * 4
        script = f"rm -f {ARCHIVE}; head -c {size} | base64 -d > {ARCHIVE}"
        container.execute("Sending the archive", shell(script), self.run.deadline.left(), stdin=file.pieces())
        arrived = container.checksum()
        if arrived != (record["size"], record["sha256"]):
            raise TenancyError(f"The archive arrived with another checksum: {arrived}.")

    def _replace(self, container: Container) -> None:
        self._uncertain = True
        try:
            container.execute("Restoring the database", snapshot_command("restore"), self.run.deadline.left())
        except TenancyError as exc:
            # If the program fails, it puts the former database back (pkg/snapshot/restoreclient.go).
            self._uncertain = isinstance(exc, ApiError)
            raise
        container.execute("Deleting the archive", shell(f"rm -f {ARCHIVE} {FORMER_DATABASE}"))

    def _remove_pod(self) -> None:
        self.run.kube.delete("v1", "Pod", RESTORE_POD, self.plane.namespace, grace_seconds=1)

        def gone() -> tuple[bool | None, str]:
            pod = self.run.kube.get("v1", "Pod", RESTORE_POD, self.plane.namespace)
            return (None, pod_state(pod)) if pod else (True, "")

        wait_for(f"the end of pod {RESTORE_POD} of tenant {self.plane.name}", gone, self.run.deadline.extended(POD_END))

    def _resume(self) -> None:
        workload = self.plane.workload()
        if workload is None:
            raise TenancyError(f"Virtual cluster {self.plane.name} is not there any more.")
        patch = resume_patch(workload)
        patch["metadata"]["annotations"][RESTORING] = None
        self.operation.scale(workload, patch)

    def _schedule_again(self, server: str | None, began: str) -> None:
        if server is None:
            self.run.warn(
                f"Nothing here reaches the API server of {self.plane.name}. Delete its pods without a phase, so that new ones are placed."
            )
            return
        config = kubeconfig.kubeconfig(self.plane.secret() or {}, self.plane.name, server, self.run.kube.proxy_url)
        Placement(self.run, self.plane.name, self.connect(config)).schedule_again(config, began)

    def _wait(self) -> JsonObject:
        readiness = Readiness(self.plane, self.operation.ask, self.run.deadline, False, self.run.kube.proxy_url, SETTLING)
        return wait_for(f"virtual cluster {self.plane.name}", readiness.probe, self.run.deadline)
