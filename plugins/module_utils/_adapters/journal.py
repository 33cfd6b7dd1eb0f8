# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The journal of host files: record what a file was before the first change, so that it can be restored.

The record is on disk before the file is changed, and is removed after the file is restored, so that a run that is
killed at any point loses nothing and the next one goes on.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import typing as t
import urllib.parse

from .._common.documents import LARGEST, parse_json
from .._common.errors import TenancyError
from .files import (
    Seen,
    is_kernel_file,
    last_write,
    look,
    make_directories,
    missing_directories,
    read_file,
    remove_empty,
    remove_file,
    write_file,
)
from .folders import Identity, reach, temporary_of

DIRECTORY = "/var/lib/kubegpu/journal"

# Bytes of a record: it holds up to three contents of the file, each a third longer than it is.
LARGEST_RECORD = 5 * LARGEST

Outcome = t.Literal["unknown", "restored", "merged", "edited"]


@dataclasses.dataclass
class Entry:
    """The record of one file.

    :ivar original: the bytes before the first change; None when there was no file.
    :ivar mode: its mode then; ``uid`` and ``gid``, its owner.
    :ivar left: the bytes that the journal wrote, newest last; two while a change is under way.
    :ivar directories: the directories that were created to hold the file, outermost first.
    """

    original: bytes | None
    mode: int
    uid: int
    gid: int
    left: list[bytes]
    directories: list[str]

    def dump(self) -> bytes:
        fields = dataclasses.asdict(self)
        fields["original"] = None if self.original is None else base64.b64encode(self.original).decode()
        fields["left"] = [base64.b64encode(content).decode() for content in self.left]
        return json.dumps(fields, indent=2).encode() + b"\n"

    @classmethod
    def load(cls, content: bytes) -> Entry:
        fields = parse_json(content, LARGEST_RECORD)
        fields["original"] = None if fields["original"] is None else base64.b64decode(fields["original"])
        fields["left"] = [base64.b64decode(content) for content in fields["left"]]
        return cls(**fields)


# Takes the owned change out of a file that was edited since; None when nothing of the file remains.
Strip = t.Callable[[bytes, Entry], "bytes | None"]


class Journal:
    """Changes of host files that can be undone.

    :arg directory: of the records.
    """

    def __init__(self, directory: str = DIRECTORY) -> None:
        self._directory = directory
        # In which folder each file was found.
        self._folders: dict[str, Identity | None] = {}

    last_write = staticmethod(last_write)

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None when there is no file."""
        return _content(self._look(path))

    def _look(self, path: str) -> Seen:
        """Read a file, and remember in which folder.

        :raises TenancyError: when it stood in another one before, that is, in one that was exchanged since.
        """
        seen = look(path)
        known = self._folders.get(path)
        if known and seen.folder and known != seen.folder:
            raise TenancyError(
                f"The folder of {path} was exchanged for another one while this ran, and {path} is left as it is. "
                "Run it again, if you know who exchanged it."
            )
        self._folders[path] = seen.folder
        return seen

    def entry(self, path: str) -> Entry | None:
        """Return the record of a file, or None when there is none.

        :raises TenancyError: when the record is damaged.
        """
        place = self._place(path)
        content = read_file(place, LARGEST_RECORD)
        try:
            return None if content is None else Entry.load(content)
        except (ValueError, KeyError, TypeError) as exc:
            raise TenancyError(
                f"{place} is damaged, so that what {path} held before is not known: {exc!r}. "
                f"Restore {place} from a backup, or remove it to keep {path} as it is."
            ) from exc

    def write(self, path: str, content: bytes, strip: Strip | None = None) -> None:
        """Give a file new content after its former state is recorded; mode and owner stay as they are.

        :arg strip: applied to a file that was edited since the last write: the edit is then part of what will be restored.
        """
        seen = self._look(path)
        present = _content(seen)
        _require_writable(path, seen)
        entry = self.entry(path)
        if entry is None:
            entry = _fresh(path, seen)
        elif present is not None and present not in entry.left and present != entry.original and strip:
            entry.original = strip(present, entry)
        # Until the file is written it is one or the other.
        entry.left = [left for left in entry.left if left == present != content] + [content]
        self._save(path, entry)
        _write(path, content, entry, seen)

    def restore(
        self, path: str, strip: Strip | None = None, dry: bool = False, forget: bool = True
    ) -> tuple[Outcome, bytes | None]:
        """Restore a file, and return the outcome and the bytes that the file holds then (None for no file).

        ``unknown``: the journal has no record of it. ``restored``: as it was, byte for byte. ``merged``: edited since, the
        owned change taken out by ``strip``. ``edited``: edited since and left alone, its former content still in the journal.

        :arg dry: change nothing, only return what would be.
        :arg forget: False for a caller that has more to do, and calls ``forget`` after that.
        """
        seen = self._look(path)
        present = _content(seen)
        entry = self.entry(path)
        if entry is None:
            if not dry:
                self.forget(path)
            return "unknown", present
        outcome: Outcome = "restored"
        content = entry.original
        if present is not None and present not in (*entry.left, entry.original):
            if strip is None:
                return "edited", present
            outcome, content = "merged", strip(present, entry)
        elif present is None and entry.original is not None:
            # The file was removed, and our change with it.
            outcome, content = "merged", None
        if content != present:
            _require_writable(path, seen)
        if dry:
            return outcome, content
        self._put(path, content, entry)
        if forget:
            self.forget(path)
        return outcome, content

    def roll_back(self, path: str, content: bytes | None, entry: Entry | None) -> None:
        """Undo the last write or restore.

        :arg content: what the file held before it.
        :arg entry: its record before it.
        """
        now = self.entry(path)
        if now is not None:
            self._put(path, content, now)
        if entry is None:
            self.forget(path)
        else:
            self._save(path, entry)

    def forget(self, path: str) -> None:
        """Remove the record of a file."""
        remove_file(temporary_of(self._place(path)))
        remove_file(self._place(path))
        remove_empty(self._directory, os.path.dirname(self._directory))

    def _put(self, path: str, content: bytes | None, entry: Entry) -> None:
        seen = self._look(path)
        try:
            remove_file(temporary_of(path), seen.folder)
            if content is None:
                remove_file(path, seen.folder)
                for directory in reversed(entry.directories):
                    remove_empty(directory, directory)
                # What is made in its place is another one.
                self._folders.pop(path)
                return
        except OSError as exc:
            raise TenancyError(f"{path} cannot be removed: {exc}") from exc
        if content != _content(seen):
            _write(path, content, entry, seen)

    def _place(self, path: str) -> str:
        return os.path.join(self._directory, urllib.parse.quote(path, safe="") + ".json")

    def _save(self, path: str, entry: Entry) -> None:
        try:
            make_directories(self._directory, 0o700)
            # What a link leads to may be a folder of others, who would be locked out of it.
            with reach(self._directory, links=False) as folder:
                folder.tighten(0o700)
        except OSError as exc:
            raise TenancyError(f"The journal {self._directory} cannot be made: {exc}") from exc
        write_file(self._place(path), entry.dump(), 0o600)


def _content(seen: Seen) -> bytes | None:
    return seen.file.content if seen.file else None


def _write(path: str, content: bytes, entry: Entry, seen: Seen) -> None:
    """Write a file with the mode and owner that it was seen with: if they were changed since, that was on purpose."""
    try:
        make_directories(os.path.dirname(path))
    except OSError as exc:
        raise TenancyError(f"The directory of {path} cannot be made: {exc}") from exc
    status = seen.file or entry
    write_file(path, content, status.mode, status.uid, status.gid, seen.folder)


def _require_writable(path: str, seen: Seen) -> None:
    """Refuse a file that no user may write, which would not stop root.

    :raises TenancyError: with the way to allow it.
    """
    if is_kernel_file(path):
        return
    if seen.file and not seen.file.mode & 0o222:
        raise TenancyError(f"{path} is read-only, and is left as it is: chmod u+w it if it may be changed.")
    with reach(os.path.dirname(path)) as folder:
        if not folder.writable:
            raise TenancyError(f"{path} cannot be changed: {folder.path} is not writable, or on a read-only file system.")


def _fresh(path: str, seen: Seen) -> Entry:
    if seen.file:
        return Entry(seen.file.content, seen.file.mode, seen.file.uid, seen.file.gid, [], [])
    return Entry(None, 0o644, os.geteuid(), os.getegid(), [], missing_directories(os.path.dirname(path)))
