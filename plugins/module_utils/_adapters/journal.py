# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The journal of host files: what stood there before the first touch, so that it can stand there again.

A file's former state is on disk before the file is touched, and goes away after the file is back, so that a
run killed at any point loses nothing and the next one goes on.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import stat
import typing as t
import urllib.parse

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

DIRECTORY = "/var/lib/kubegpu/journal"

# Kernel files take a value in place; nothing can be renamed onto them.
IN_PLACE = ("/proc/", "/sys/")

Outcome = t.Literal["unknown", "restored", "merged", "edited"]


@dataclasses.dataclass
class Entry:
    """What the journal knows about one file.

    :ivar original: the bytes before the first touch; None when there was no file.
    :ivar left: the bytes we left, newest last; two while a change is under way.
    :ivar directories: what we created to hold the file, outermost first.
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
        fields = json.loads(content)
        fields["original"] = None if fields["original"] is None else base64.b64decode(fields["original"])
        fields["left"] = [base64.b64decode(content) for content in fields["left"]]
        return cls(**fields)


# Takes our change out of a file that somebody edited since; None when nothing of it remains.
Strip = t.Callable[[bytes, Entry], "bytes | None"]


def read_file(path: str) -> bytes | None:
    """A host file's bytes, or None when there is none."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            raise TenancyError(f"{path} is a symbolic link to {os.path.realpath(path)}: name the file itself.")
        # Opening a pipe would wait for somebody to write into it.
        if not stat.S_ISREG(mode):
            raise TenancyError(f"{path} cannot be read: it is no regular file. Move away what stands there.")
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise TenancyError(f"{path} cannot be read: {exc}") from exc


def write_file(path: str, content: bytes, mode: int = 0o644, uid: int | None = None, gid: int | None = None) -> None:
    """Replace a file in one step that survives a crash; without an owner it is ours."""
    try:
        if path.startswith(IN_PLACE):
            with open(path, "wb") as stream:
                stream.write(content)
            return
        temporary = _temporary(path)
        # Never a file that somebody else put there.
        _unlink(temporary)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                os.fchown(stream.fileno(), -1 if uid is None else uid, -1 if gid is None else gid)
                # After the owner: a new one takes the set-user-id bit away.
                os.fchmod(stream.fileno(), mode)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except OSError:
            _unlink(temporary)
            raise
        _sync(os.path.dirname(path))
    except OSError as exc:
        raise TenancyError(f"{path} cannot be written: {exc}") from exc


def _temporary(path: str) -> str:
    """Always the same name, so that what a killed run left is used or removed by the next."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.kubegpu")


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def make_directories(path: str, mode: int = 0o755) -> list[str]:
    """Create a directory with its parents; what had to be created, outermost first."""
    missing = _missing(path)
    for directory in missing:
        os.mkdir(directory, mode)
    return missing


def remove_empty(path: str, top: str) -> None:
    """Remove a directory and its parents up to and including ``top``, as far as they are empty."""
    while path == top or path.startswith(f"{top}/"):
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass
        except OSError:
            return
        path = os.path.dirname(path)


class Journal:
    """Every change of a host file goes through here."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self._directory = directory

    def entry(self, path: str) -> Entry | None:
        place = self._place(path)
        content = read_file(place)
        try:
            return None if content is None else Entry.load(content)
        except (ValueError, KeyError, TypeError) as exc:
            raise TenancyError(
                f"{place} does not tell what {path} held before: {exc!r}. Restore it from a backup, or remove it to keep {path} as it is."
            ) from exc

    def write(self, path: str, content: bytes, strip: Strip | None = None) -> None:
        """Give a file new content, its former state recorded first; mode and owner stay as they are.

        :arg strip: applied to what somebody edited since our last write: their edit is then part of what will be restored.
        """
        present = read_file(path)
        _require_writable(path, present)
        entry = self.entry(path)
        if entry is None:
            entry = _fresh(path, present)
        elif present is not None and present not in entry.left and present != entry.original and strip:
            entry.original = strip(present, entry)
        # Until the file is written it is one or the other.
        entry.left = [left for left in entry.left if left == present != content] + [content]
        self._save(path, entry)
        _write(path, content, entry)

    def restore(
        self, path: str, strip: Strip | None = None, dry: bool = False, forget: bool = True
    ) -> tuple[Outcome, bytes | None]:
        """Give a file back, and what it holds then.

        ``unknown``: never touched by us. ``restored``: as it was, byte for byte. ``merged``: edited since, our change
        taken out by ``strip``. ``edited``: edited since and left alone, with what was there before still in the journal.

        :arg dry: only say what would happen.
        :arg forget: False for a caller that has more to do, and calls ``forget`` after that.
        """
        present = read_file(path)
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
            # Somebody removed the file, and our change with it.
            outcome, content = "merged", None
        if content != present:
            _require_writable(path, present)
        if dry:
            return outcome, content
        self._put(path, content, entry)
        if forget:
            self.forget(path)
        return outcome, content

    def roll_back(self, path: str, content: bytes | None, entry: Entry | None) -> None:
        """Undo our last write or restore.

        :arg content: what the file held before it.
        :arg entry: what the journal knew before it.
        """
        now = self.entry(path)
        if now is not None:
            self._put(path, content, now)
        if entry is None:
            self.forget(path)
        else:
            self._save(path, entry)

    def forget(self, path: str) -> None:
        _unlink(_temporary(self._place(path)))
        _unlink(self._place(path))
        remove_empty(self._directory, os.path.dirname(self._directory))

    @staticmethod
    def _put(path: str, content: bytes | None, entry: Entry) -> None:
        try:
            _unlink(_temporary(path))
            if content is None:
                _unlink(path)
                for directory in reversed(entry.directories):
                    remove_empty(directory, directory)
                return
        except OSError as exc:
            raise TenancyError(f"{path} cannot be removed: {exc}") from exc
        if content != read_file(path):
            _write(path, content, entry)

    def _place(self, path: str) -> str:
        return os.path.join(self._directory, urllib.parse.quote(path, safe="") + ".json")

    def _save(self, path: str, entry: Entry) -> None:
        try:
            make_directories(self._directory, 0o700)
            os.chmod(self._directory, 0o700)
        except OSError as exc:
            raise TenancyError(f"The journal {self._directory} cannot be made: {exc}") from exc
        write_file(self._place(path), entry.dump(), 0o600)


def _write(path: str, content: bytes, entry: Entry) -> None:
    """Mode and owner are what they are now: somebody may have changed them since, and meant it."""
    try:
        make_directories(os.path.dirname(path))
    except OSError as exc:
        raise TenancyError(f"The directory of {path} cannot be made: {exc}") from exc
    try:
        status = os.lstat(path)
        write_file(path, content, status.st_mode & 0o7777, status.st_uid, status.st_gid)
    except FileNotFoundError:
        write_file(path, content, entry.mode, entry.uid, entry.gid)


def _require_writable(path: str, present: bytes | None) -> None:
    """Root may write what nobody is meant to write, so that is asked beforehand."""
    if path.startswith(IN_PLACE):
        return
    if present is not None and not os.stat(path).st_mode & 0o222:
        raise TenancyError(f"{path} is read-only, and is left as it is: chmod u+w it if it may be changed.")
    directory = os.path.dirname(next(iter(_missing(os.path.dirname(path))), path))
    if not os.access(directory, os.W_OK):
        raise TenancyError(f"{path} cannot be changed: {directory} is not writable, or on a read-only file system.")


def _missing(directory: str) -> list[str]:
    """The directories that have to be made for this one, outermost first."""
    missing: list[str] = []
    while not os.path.isdir(directory):
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    return missing


def _fresh(path: str, present: bytes | None) -> Entry:
    if present is None:
        return Entry(None, 0o644, os.geteuid(), os.getegid(), [], _missing(os.path.dirname(path)))
    status = os.stat(path)
    return Entry(present, status.st_mode & 0o7777, status.st_uid, status.st_gid, [], [])


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
