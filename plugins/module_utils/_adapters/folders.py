# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to folders: each on the way is opened by itself, and what is done in the last one is done by its descriptor.

A path says what stands there now. A user who may write to a folder on it can put something else there a moment later, such as a link, so that
root reads or writes a file of its own in place of that user's. A descriptor stays with what was opened and judged.

Only root can be tricked into giving a file to another user. So for root all folders on the way are judged, for others the last one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import grp
import os
import pwd
import stat
import typing as t

from .._common.documents import LARGEST
from .._common.errors import TenancyError

# Device and inode: no two folders that exist have the same.
Identity = tuple[int, int]

# Where the system has O_PATH, a folder on the way need not be readable, as for any path.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
# A pipe does not wait for its other end, and a terminal does not become that of this process.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
# What systems answer where a link stands and is not followed. Linux answers ENOTDIR for a folder, and ELOOP for a file.
_LINK = (errno.ENOTDIR, errno.ELOOP, errno.EMLINK)
# As Linux has it (path_resolution(7)).
_MOST_LINKS = 40
_PIECE = 2**16


@dataclasses.dataclass(frozen=True)
class Held:
    """A regular file as it was read: everything is from one descriptor.

    :ivar mode: its permissions, such as 0o600; ``uid`` and ``gid``, its owner.
    :ivar changed: when it was written last, in seconds since 1970.
    """

    content: bytes
    mode: int
    uid: int
    gid: int
    changed: float


@dataclasses.dataclass(frozen=True)
class Folder:
    """An open folder, for a ``with`` block.

    :ivar path: where it is, for messages; ``status``, as it was opened.
    :ivar missing: paths of the folders below it that were asked for and do not exist, outermost first.
    :ivar made: paths of the folders that were made, outermost first.
    :ivar others: for root, paths of folders on the way, this one included, that belong to other users, each with its owner.
    :ivar is_root: whether root runs this; ``trusted``, the users whose folders no other user can exchange.
    """

    path: str
    descriptor: int
    status: os.stat_result
    missing: list[str]
    made: list[str]
    others: dict[str, int]
    is_root: bool
    trusted: frozenset[int]

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self.descriptor)

    # --- whose it is ---

    @property
    def identity(self) -> Identity:
        """Return what tells it from every other folder."""
        return self.status.st_dev, self.status.st_ino

    @property
    def owner(self) -> tuple[int | None, int | None]:
        """Return user and group that root's new files in it get; None for a folder of root, and where root does not run this."""
        theirs = self.is_root and self.status.st_uid not in self.trusted
        return (self.status.st_uid, self.status.st_gid) if theirs else (None, None)

    @property
    def writable(self) -> bool:
        """Tell whether the user that runs this may write to it, and its file system lets anybody."""
        return os.access(".", os.W_OK, dir_fd=self.descriptor)

    def require(self, identity: Identity | None = None) -> None:
        """Refuse the innermost folder that exists in place of the one that was asked for, and another than the one that was read from.

        :arg identity: of that one; None where nothing was read.
        :raises FileNotFoundError: when there is no such folder.
        :raises TenancyError: when it was exchanged since.
        """
        if self.missing:
            raise FileNotFoundError(errno.ENOENT, "There is no such folder", self.missing[-1])
        if identity not in (None, self.identity):
            raise TenancyError(
                f"{self.path} is not the folder any more that was read from before, and nothing was written. "
                "Run it again, if you know who exchanged it."
            )

    def require_trusted(self) -> None:
        """Refuse a folder that root finds by one of another user.

        :raises TenancyError: with its owner.
        """
        for path, owner in self.others.items():
            raise TenancyError(
                f"{path} belongs to {_user(owner)}, who could exchange what root writes there: "
                f"name a file in a folder of root, or chown root {path}."
            )

    # --- its files ---

    def read(self, name: str, most: int = LARGEST) -> Held | None:
        """Return a file, or None when there is none.

        :arg most: bytes.
        :raises TenancyError: when it is no regular file, is larger, or belongs to a user who may not own a file here.
        """
        path = os.path.join(self.path, name)
        try:
            descriptor = os.open(name or ".", os.O_RDONLY | _FILE, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise self._unopened(name, exc) from exc
        with _closed(descriptor):
            status = _regular(descriptor, path)
            self._require_owner(path, status.st_uid)
            content = _content(descriptor, most + 1)
            if len(content) > most:
                raise TenancyError(f"{path} cannot be read: it has more than {most} bytes. Move away what stands there.")
            return Held(content, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime)

    def _unopened(self, name: str, error: OSError) -> Exception:
        """Return why a file could not be opened."""
        path = os.path.join(self.path, name)
        if error.errno in _LINK:
            with contextlib.suppress(OSError):
                target = os.path.normpath(os.path.join(self.path, os.readlink(name, dir_fd=self.descriptor)))
                return TenancyError(f"{path} is a symbolic link to {target}: name the file itself.")
        # A socket.
        return _no_file(path) if error.errno in (errno.ENXIO, errno.EOPNOTSUPP) else error

    def _require_owner(self, path: str, uid: int) -> None:
        """Refuse root a file that is not the folder's owner's: one of them would get what the other one's file holds.

        Only root can have put a file of another user into its own folder, unless others may write to that, too.
        """
        owner = self.status.st_uid
        placed = owner in self.trusted and (uid in self.trusted or not _others_may_write(self.status))
        if not self.is_root or uid == owner or placed:
            return
        raise TenancyError(
            f"{path} belongs to {_user(uid)}, and its folder to {_user(owner)}, and stays as it is. "
            f"Move it away, or give it to {_user(owner)} if that one may know what it holds."
        )

    def replace(self, name: str, content: bytes, mode: int, uid: int | None = None, gid: int | None = None) -> None:
        """Replace a file in one step that survives a crash.

        :arg uid: the owner; None for the user that runs this. ``gid`` alike.
        :raises OSError: when it cannot be written; the former file is then still there.
        """
        temporary = temporary_of(name)
        # Never a file that another user put there.
        self.remove(temporary)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=self.descriptor)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                os.fchown(descriptor, -1 if uid is None else uid, -1 if gid is None else gid)
                # After the owner: a new one takes the set-user-id bit away.
                os.fchmod(descriptor, mode)
                stream.flush()
                os.fsync(descriptor)
            os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except OSError:
            self.remove(temporary)
            raise
        with self._opened() as descriptor:
            os.fsync(descriptor)

    def overwrite(self, name: str, content: bytes) -> None:
        """Write into a file that is there, as the kernel's settings are written.

        :raises OSError: when it cannot be written.
        """
        descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC | _FILE, dir_fd=self.descriptor)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def tighten(self, mode: int) -> None:
        """Give the folder itself these permissions."""
        with self._opened() as descriptor:
            os.fchmod(descriptor, mode)

    @contextlib.contextmanager
    def _opened(self) -> t.Iterator[int]:
        """Open the folder for what O_PATH does not allow."""
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.descriptor)
        with _closed(descriptor):
            yield descriptor


class _Way:
    """The way from the root folder to another one; ivars as of Folder."""

    def __init__(self) -> None:
        self.path = "/"
        self.missing: list[str] = []
        self.made: list[str] = []
        self.others: dict[str, int] = {}
        self.descriptor = os.open("/", _FOLDER)
        self.status = os.fstat(self.descriptor)
        self.is_root = os.geteuid() == 0
        # In a user namespace, root of the host has another number; it owns the root folder.
        self.trusted = frozenset({0, os.geteuid(), self.status.st_uid})

    def go(self, path: str, make: int | None, links: bool) -> None:
        """Go to a folder from the root folder; see ``reach``."""
        todo = [part for part in os.path.abspath(path).split("/") if part]
        followed, made = 0, ""
        while todo:
            if self.is_root:
                self._judge()
            name = todo.pop(0)
            try:
                self._enter(name)
            except FileNotFoundError:
                if make is None:
                    self.missing = [os.path.join(self.path, name, *todo[:more]) for more in range(len(todo) + 1)]
                    break
                missing = os.path.join(self.path, name)
                if missing == made:
                    # It is gone again.
                    raise
                self._make(name, make)
                made = missing
                todo.insert(0, name)
            except OSError as exc:
                if exc.errno not in _LINK:
                    raise
                if followed == _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from exc
                followed += 1
                todo = self._target(name, links or bool(todo), exc) + todo
        self._judge()

    def _make(self, name: str, mode: int) -> None:
        """Make a folder, unless another process has made it since, as that of another host of the inventory."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=self.descriptor)
            self.made.append(os.path.join(self.path, name))

    def _enter(self, name: str) -> None:
        below = os.open(name, _FOLDER, dir_fd=self.descriptor)
        os.close(self.descriptor)
        self.descriptor, self.path = below, os.path.normpath(os.path.join(self.path, name))
        before, self.status = self.status, os.fstat(below)
        owner = self.status.st_uid
        if self.is_root and owner not in self.trusted:
            if _others_may_write(before):
                raise TenancyError(
                    f"{self.path} belongs to {_user(owner)}, and stands in a folder in which everybody may make one. "
                    "Name a file in another folder."
                )
            self.others[self.path] = owner

    def _target(self, name: str, follow: bool, error: OSError) -> list[str]:
        """Return the parts of the way that a link stands for.

        :raises TenancyError: when it is not to be followed, or another user may have made it.
        """
        path = os.path.join(self.path, name)
        status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            raise error
        kept = not _others_may_write(self.status) or self.status.st_mode & stat.S_ISVTX
        if not (follow and kept and self.status.st_uid in self.trusted and status.st_uid in self.trusted):
            raise TenancyError(
                f"{path} is a symbolic link of {_user(status.st_uid)}, and is not followed: name the folder itself."
            )
        target = os.readlink(name, dir_fd=self.descriptor)
        return [*(["/"] if target.startswith("/") else []), *(part for part in target.split("/") if part)]

    def _judge(self) -> None:
        """Refuse a folder in which anybody may exchange what stands there.

        :raises TenancyError: with what to do.
        """
        status = self.status
        if _others_may_write(status) and not status.st_mode & stat.S_ISVTX:
            raise TenancyError(
                f"{self.path} may be written to by others than its owner {_user(status.st_uid)} (mode {stat.S_IMODE(status.st_mode):04o}, "
                f"group {_group(status.st_gid)}), who could exchange what stands there. Take that right away (chmod go-w {self.path}), "
                "or name a file in another folder."
            )


def reach(path: str, make: int | None = None, links: bool = True) -> Folder:
    """Open a folder, or the innermost on the way to it that exists.

    A link on the way is followed where root or the user that runs this made it, in a folder that is theirs, such as /var/run. No other user
    can have put that there.

    :arg make: mode of the folders that are made where they are missing; None for none.
    :arg links: False refuses a link in the last place, no matter which user made it.
    :raises TenancyError: for a link of another user, and for a folder that others may write to.
    :raises OSError: when something else is in the way.
    """
    way = _Way()
    try:
        way.go(path, make, links)
    except BaseException:
        os.close(way.descriptor)
        raise
    return Folder(way.path, way.descriptor, way.status, way.missing, way.made, way.others, way.is_root, way.trusted)


def temporary_of(path: str) -> str:
    """Return the path under which a file is prepared; always the same, so that the next run removes what a killed one left."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.kubegpu")


@contextlib.contextmanager
def _closed(descriptor: int) -> t.Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def _regular(descriptor: int, path: str) -> os.stat_result:
    """Return the status of an open file.

    :raises TenancyError: when it is no regular one.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _no_file(path)
    return status


def _content(descriptor: int, most: int) -> bytes:
    """Return so many bytes of an open file, in pieces: the kernel refuses to read one of its settings into megabytes."""
    content = bytearray()
    while len(content) < most and (piece := os.read(descriptor, min(_PIECE, most - len(content)))):
        content += piece
    return bytes(content)


def _no_file(path: str) -> TenancyError:
    return TenancyError(f"{path} cannot be read: it is no regular file. Move away what stands there.")


def _others_may_write(status: os.stat_result) -> bool:
    """Tell whether others than root and its owner may write to a folder."""
    return bool(status.st_mode & stat.S_IWOTH) or bool(status.st_mode & stat.S_IWGRP and not _is_private(status))


def _is_private(status: os.stat_result) -> bool:
    """Tell whether a group is root's, or has only the owner in it: Linux makes a group for each user, by the user's name."""
    if status.st_gid == 0:
        return True
    with contextlib.suppress(KeyError):
        owner, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid)
        return group.gr_name == owner and set(group.gr_mem) <= {owner}
    return False


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
