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
import hashlib
import json
import os
import typing as t

from ..module_utils._adapters import files
from ..module_utils._adapters.snapshot_file import LARGEST
from ..module_utils._backup.validation import checked_record
from ..module_utils._common.documents import parse_json
from ..module_utils._common.errors import TenancyError, refusal
from ..module_utils._common.values import moment

Data = dict[str, t.Any]

RECORD, PLAIN, ENCRYPTED = ".json", ".tar.gz", ".tar.gz.vault"
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


class Store:
    """The backups of one tenant of one cluster.

    :arg folder: of all clusters.
    """

    def __init__(self, folder: str, cluster: str, tenant: str) -> None:
        self.folder = os.path.join(os.path.abspath(os.path.expanduser(folder)), cluster, tenant)
        self._cluster = cluster

    def keep(self, record: Data, content: bytes, encrypt: Convert | None) -> Kept:
        """Keep a backup, and return it.

        :arg content: of its archive; ``encrypt``, what makes it unreadable, None to keep it as it is.
        :raises TenancyError: where it is not the archive of its record, or cannot be written; nothing of it counts then.
        """
        digest = hashlib.sha256(content).hexdigest()
        if (len(content), digest) != (record["size"], record["sha256"]):
            raise refusal("damaged-backup", f"The archive of {record['tenant']} arrived with another checksum: {digest}.")
        kept = encrypt(content) if encrypt else content
        name = _file_name(record)
        whole = record | {
            "cluster": self._cluster,
            "file": f"{name}{ENCRYPTED if encrypt else PLAIN}",
            "file_sha256": hashlib.sha256(kept).hexdigest(),
            "encrypted": encrypt is not None,
        }
        files.make_directories(self.folder, 0o700)
        path = self._path(whole["file"])
        files.write_file(path, kept, 0o600)
        text = json.dumps(whole, indent=2, sort_keys=True) + "\n"
        files.write_file(self._path(f"{name}{RECORD}"), text.encode(), 0o600)
        return Kept(whole, path)

    def all(self) -> list[Kept]:
        """Return the backups that are whole, the newest first; files without a record that can be read are none."""
        found = [self._read(name) for name in files.list_directory(self.folder) if name.endswith(RECORD)]
        return sorted(filter(None, found), key=lambda kept: moment(kept.at), reverse=True)

    def choose(self, which: str) -> Kept:
        """Return a backup by when it was made, or the newest one for ``latest``.

        :raises TenancyError: where there is none.
        """
        kept = self.all()
        chosen = kept[:1] if which == "latest" else [one for one in kept if which in (one.at, _file_name(one.record))]
        if not chosen:
            there = f"There are: {', '.join(one.at for one in kept)}." if kept else "There is none."
            raise refusal("no-backup", f"There is no backup {which} in {self.folder}. {there}")
        return chosen[0]

    def load(self, kept: Kept, decrypt: Convert) -> bytes:
        """Return the content of a backup's archive.

        :arg decrypt: for one that was encrypted.
        :raises TenancyError: where it is missing, damaged, or not decrypted by any of the passwords.
        """
        content = files.read_file(kept.path, LARGEST * 3)
        if content is None:
            raise refusal("no-backup", f"{kept.path} is missing.")
        if hashlib.sha256(content).hexdigest() != kept.record["file_sha256"]:
            raise refusal("damaged-backup", f"{kept.path} has another checksum than its record names. Use another backup.")
        return decrypt(content) if kept.record["encrypted"] else content

    def prune(self, keep: int) -> list[Kept]:
        """Delete the oldest backups until ``keep`` are left, and what runs that were cut off left; return the backups that went."""
        kept = self.all()
        gone = kept[keep:]
        for one in gone:
            # Without its record first, a deletion that is cut off leaves no backup without an archive.
            files.remove_file(self._path(f"{_file_name(one.record)}{RECORD}"))
            files.remove_file(one.path)
        known = {os.path.basename(one.path) for one in kept}
        for name in files.list_directory(self.folder):
            if name.endswith((PLAIN, ENCRYPTED)) and name not in known:
                files.remove_file(self._path(name))
        return gone

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _read(self, name: str) -> Kept | None:
        path = self._path(name)
        try:
            record = checked_record(parse_json(files.read_file(path) or b""), path)
            file = record["file"]
            if os.path.basename(file) != file or not isinstance(record["file_sha256"], str):
                return None
        except (TenancyError, ValueError, KeyError, TypeError):
            return None
        archive = self._path(file)
        return Kept(record, archive) if os.path.exists(archive) else None


def listing(tenants: t.Mapping[str, t.Sequence[Kept]]) -> list[str]:
    """Return lines that list backups, of each tenant the newest first.

    :arg tenants: what is kept of each, by its name.
    """
    lines = []
    for name, kept in tenants.items():
        lines += [f"{name}: no backup"] if not kept else [f"{name}: {len(kept)} {'backup' if len(kept) == 1 else 'backups'}"]
        lines += [f"  {_line(one.record)}" for one in kept]
    return lines


def _line(record: Data) -> str:
    megabytes, volumes = record["size"] / 10**6, len(record.get("volumes_left_out") or [])
    parts = [
        record["at"],
        f"{megabytes:.1f} MB",
        f"vCluster {record['version']}",
        f"Kubernetes {record['kubernetes_version']}",
        *(["encrypted"] if record["encrypted"] else []),
        *([f"without the data of {volumes} {'volume' if volumes == 1 else 'volumes'}"] if volumes else []),
    ]
    return ", ".join(parts)


def _file_name(record: Data) -> str:
    """Return how the files of a backup begin: its time, without characters that some file systems refuse."""
    return moment(record["at"]).strftime("%Y%m%dT%H%M%SZ")
