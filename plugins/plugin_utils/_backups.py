# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The folder on the controller with the backups of tenants: an archive for each, and beside it a record, which is written last.

A backup without a record is none: a run that was cut off leaves no half of one that counts.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import os
import re
import typing as t

from ..module_utils._adapters import files
from ..module_utils._backup.validation import checked_record, is_digest
from ..module_utils._backup.values import file_stamp
from ..module_utils._common.documents import parse_json
from ..module_utils._common.errors import TenancyError, refusal
from ..module_utils._common.text import shown
from ..module_utils._common.values import moment, utc_now, value_at
from ._evidence_words import many
from ._leftovers import Leftovers

Data = dict[str, t.Any]

RECORD, PLAIN, ENCRYPTED = ".json", ".tar.gz", ".tar.gz.vault"
# Of the archives that are named here; the folder may hold other files.
_ARCHIVE = re.compile(r"(\d{8}T\d{6}Z)\.tar\.gz(\.vault)?")
# In the cluster's folder: which backups a renewal restores, see playbooks/tasks/renewal.yml.
NOTE = "renewal.json"
# How far the clocks of a host and of the controller may be apart.
_AHEAD = datetime.timedelta(hours=1)
# Takes the content of an archive, and returns what is kept, or the other way round.
Convert = t.Callable[[bytes], bytes]


@dataclasses.dataclass(frozen=True)
class Kept:
    """One backup.

    :ivar record: as ``Backup.save`` returns it, with ``cluster``, ``file`` (name of its archive), ``file_sha256`` and ``encrypted``.
    :ivar path: of its archive.
    """

    record: Data
    path: str

    @property
    def at(self) -> str:
        """When it was made, as its files are named."""
        return str(self.record["at"])

    @property
    def is_ahead(self) -> bool:
        """Whether it is dated in the future: a clock was wrong, and how old it is is not known."""
        return moment(self.at) > utc_now() + _AHEAD


class Store:
    """The backups of one tenant of one cluster.

    :arg folder: of all clusters.
    """

    def __init__(self, folder: str, cluster: str, tenant: str) -> None:
        self.folder = os.path.join(os.path.abspath(os.path.expanduser(folder)), cluster, tenant)
        self._cluster = cluster
        self._tenant = tenant
        self.leftovers = Leftovers(os.path.dirname(self.folder))

    def keep(self, record: Data, content: bytes, encrypt: Convert | None) -> Kept:
        """Keep a backup, and return it.

        :arg content: of its archive; ``encrypt``, what makes it unreadable, None to keep it as it is.
        :raises TenancyError: where it is not the archive of its record, a restore would refuse the record, another backup has its name, or
            it cannot be written; nothing of it counts then.
        """
        checked_record(record, f"The record of {shown(record['tenant'])}")
        digest = hashlib.sha256(content).hexdigest()
        if (len(content), digest) != (record["size"], record["sha256"]):
            raise refusal("damaged-backup", f"The archive of {record['tenant']} arrived with another checksum: {digest}.")
        kept = encrypt(content) if encrypt else content
        name = file_stamp(record["at"])
        whole = record | {
            "cluster": self._cluster,
            "file": _archive_name(record, encrypt is not None),
            "file_sha256": hashlib.sha256(kept).hexdigest(),
            "encrypted": encrypt is not None,
        }
        files.make_directories(self.folder, 0o700)
        if taken := [other for other in files.list_directory(self.folder) if other.partition(".")[0] == name]:
            raise refusal(
                "backup-exists",
                f"{self._path(taken[0])} exists: another backup of this second, or what is left of one. Repeat the backup.",
            )
        path = self._path(whole["file"])
        files.write_file(path, kept, 0o600)
        text = json.dumps(whole, indent=2, sort_keys=True) + "\n"
        files.write_file(self._path(f"{name}{RECORD}"), text.encode(), 0o600)
        return Kept(whole, path)

    def all(self) -> list[Kept]:
        """Return the backups that are whole, the newest first, and at the end the ones that are dated in the future.

        Files without a record that can be read, or with other names than ``keep`` gives, are none.
        """
        found = filter(None, [self._read(name) for name in files.list_directory(self.folder) if name.endswith(RECORD)])
        return sorted(found, key=lambda kept: (not kept.is_ahead, moment(kept.at)), reverse=True)

    def leftovers_of(self) -> list[str]:
        """Return the runs whose snapshots of volumes the tenant's next backup deletes; none that a backup here names."""
        named = {kept.record.get("run") for kept in self.all()}
        return [run for run in self.leftovers.of(self._tenant) if run not in named]

    def choose(self, which: str) -> Kept:
        """Return a backup by when it was made, or the newest one for ``latest``, which is none that is dated in the future.

        :raises TenancyError: where there is none.
        """
        kept = self.all()
        dated = [one for one in kept if not one.is_ahead]
        chosen = dated[:1] if which == "latest" else [one for one in kept if which in (one.at, file_stamp(one.at))]
        if not chosen:
            times = [f"{shown(one.at)}{', which is dated in the future' if one.is_ahead else ''}" for one in kept]
            there = f"Name one of these by its time: {'; '.join(times)}." if kept else "There is none."
            raise refusal("no-backup", f"There is no backup {which} in {self.folder}. {there}")
        return chosen[0]

    def load(self, kept: Kept, decrypt: Convert) -> bytes:
        """Return the content of a backup's archive.

        :arg decrypt: for one that was encrypted.
        :raises TenancyError: where it is missing, damaged, or not decrypted by any of the passwords.
        """
        content = files.read_file(kept.path, _largest(kept.record["size"]))
        if content is None:
            raise refusal("no-backup", f"{kept.path} is missing.")
        if hashlib.sha256(content).hexdigest() != kept.record["file_sha256"]:
            raise refusal("damaged-backup", f"{kept.path} has another checksum than its record names. Use another backup.")
        return decrypt(content) if kept.record["encrypted"] else content

    def prune(self, keep: int, made: Kept) -> list[Kept]:
        """Delete the oldest backups until ``keep`` are left, and what runs that were cut off left; return the backups that went.

        :arg made: the backup that was just made. It stays, also where its time is an earlier one, and so does one that a renewal
            restores.
        """
        noted = self._noted()
        others = [one for one in self.all() if one.path != made.path]
        gone = [one for one in others[max(keep - 1, 0) :] if one.at != noted]
        for one in gone:
            if one.record.get("volumes"):
                self.leftovers.add(self._tenant, one.record["run"])
            # Without its record first, a deletion that is cut off leaves no backup without an archive.
            files.remove_file(self._path(f"{file_stamp(one.at)}{RECORD}"))
            files.remove_file(one.path)
        names = files.list_directory(self.folder)
        for name in names:
            found = _ARCHIVE.fullmatch(name)
            if found and f"{found[1]}{RECORD}" not in names and os.path.isfile(self._path(name)):
                files.remove_file(self._path(name))
        return gone

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _noted(self) -> t.Any:
        """Return when the backup was made that a renewal restores; None where no note names one."""
        try:
            note = parse_json(files.read_file(os.path.join(os.path.dirname(self.folder), NOTE)) or b"{}")
        except (TenancyError, ValueError):
            return None
        return value_at(note, f"backups.{self._tenant}")

    def _read(self, name: str) -> Kept | None:
        path = self._path(name)
        try:
            record = checked_record(parse_json(files.read_file(path) or b""), path)
        except (TenancyError, ValueError):
            return None
        encrypted = record.get("encrypted")
        if not isinstance(encrypted, bool) or not is_digest(record.get("file_sha256")):
            return None
        file = _archive_name(record, encrypted)
        if (name, record.get("file")) != (f"{file_stamp(record['at'])}{RECORD}", file) or not os.path.isfile(self._path(file)):
            return None
        return Kept(record, self._path(file))


def listing(tenants: t.Mapping[str, t.Sequence[Kept]]) -> list[str]:
    """Return lines that list backups, of each tenant the newest first.

    :arg tenants: what is kept of each, by its name.
    """
    lines = []
    for name, kept in tenants.items():
        lines += [f"{name}: no backup"] if not kept else [f"{name}: {many(len(kept), 'backup')}"]
        lines += [f"  {_line(one)}" for one in kept]
    return lines


def _line(kept: Kept) -> str:
    record = kept.record
    megabytes = record["size"] / 10**6
    parts = [
        record["at"],
        f"{megabytes:.1f} MB",
        f"vCluster {record['version']}",
        f"Kubernetes {record['kubernetes_version']}",
        *(["encrypted"] if record["encrypted"] else []),
        *(
            f"{how} the data of {many(len(record[key]), 'volume')}"
            for how, key in (("with", "volumes"), ("without", "volumes_left_out"))
            if record.get(key)
        ),
        *(["dated in the future: restored only by its time"] if kept.is_ahead else []),
    ]
    return shown(", ".join(parts))


def _archive_name(record: Data, encrypted: bool) -> str:
    return f"{file_stamp(record['at'])}{ENCRYPTED if encrypted else PLAIN}"


def _largest(size: int) -> int:
    """Return the bytes that an archive of a size has at most as a file: ansible-vault writes four characters for a byte, in lines of 80."""
    return size * 4 * 81 // 80 + 4096
