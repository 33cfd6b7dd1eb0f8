# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the host's files: read them, replace them in one step, make and remove directories."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import pwd
import typing as t

from .._common.documents import LARGEST
from .._common.errors import TenancyError
from .._common.values import Write, stamp
from .folders import Folder, Held, Identity, reach, temporary_of

# Kernel files take a value in place; nothing can be renamed onto them.
IN_PLACE = ("/proc/", "/sys/")


@dataclasses.dataclass(frozen=True)
class Seen:
    """What was found at a path.

    :ivar file: None where there is none.
    :ivar folder: which one it would stand in; None where there is none.
    """

    file: Held | None
    folder: Identity | None


def look(path: str, most: int = LARGEST) -> Seen:
    """Return the file at a path, and which folder that is.

    :arg most: bytes of the file.
    :raises TenancyError: when it is no regular file, larger, or cannot be read.
    """
    try:
        with _folder_of(path) as (folder, name):
            return Seen(folder.read(name, most), folder.identity)
    except FileNotFoundError:
        return Seen(None, None)
    except OSError as exc:
        raise TenancyError(f"{path} cannot be read: {exc}") from exc


def read_file(path: str, most: int = LARGEST) -> bytes | None:
    """Return a file's bytes, or None when there is no file.

    :arg most: bytes of it.
    :raises TenancyError: when it is no regular file, larger, or cannot be read.
    """
    file = look(path, most).file
    return None if file is None else file.content


def last_write(path: str) -> Write | None:
    """Return when a file was written last, and whose it is; None without one, and for kernel files, whose times say nothing.

    :raises TenancyError: when it cannot be read.
    """
    return None if is_kernel_file(path) else written(look(path).file)


def written(file: Held | None) -> Write | None:
    """Return when a file that was read was written last, and whose it is; None without one."""
    if file is None:
        return None
    try:
        owner = pwd.getpwuid(file.uid).pw_name
    except KeyError:
        owner = str(file.uid)
    return Write(stamp(datetime.datetime.fromtimestamp(file.changed, datetime.timezone.utc)), f"owner {owner}")


def write_file(
    path: str, content: bytes, mode: int = 0o644, uid: int | None = None, gid: int | None = None, folder: Identity | None = None
) -> None:
    """Replace a file in one step that survives a crash.

    :arg uid: the owner; None for the user that runs this. ``gid`` alike.
    :arg folder: in which it was read; None where it was not.
    :raises TenancyError: when it cannot be written; the former file is then still there.
    """
    try:
        with _folder_of(path, folder) as (opened, name):
            if is_kernel_file(path):
                opened.overwrite(name, content)
            else:
                opened.replace(name, content, mode, uid, gid)
    except OSError as exc:
        raise TenancyError(f"{path} cannot be written: {exc}") from exc


def is_kernel_file(path: str) -> bool:
    """Tell whether a file is a setting of the kernel, which is written in place."""
    return os.path.abspath(path).startswith(IN_PLACE)


def remove_file(path: str, folder: Identity | None = None) -> None:
    """Remove a file, if it exists.

    :arg folder: in which it was read; None where it was not.
    """
    with contextlib.suppress(FileNotFoundError), _folder_of(path, folder) as (opened, name):
        opened.remove(name)


def remove_written(path: str) -> None:
    """Remove a file, and what a killed run left of writing it."""
    remove_file(temporary_of(path))
    remove_file(path)


def missing_directories(directory: str) -> list[str]:
    """Return the directories that have to be made for this one, outermost first."""
    with reach(directory) as folder:
        return folder.missing


def make_directories(path: str, mode: int = 0o755) -> list[str]:
    """Create a directory with its parents, and return the created directories, outermost first.

    :arg mode: of directories that are created; directories that exist keep theirs.
    """
    with reach(path) as folder:
        folder.require_trusted()
    with reach(path, mode) as folder:
        return folder.made


def remove_empty(path: str, top: str) -> None:
    """Remove a directory and its parents up to and including ``top``, as far as they are empty; nothing outside of ``top``."""
    path, top = os.path.normpath(path), os.path.normpath(top)
    while path != "/" and (path == top or path.startswith(f"{top}/")):
        try:
            with _folder_of(path) as (folder, name):
                os.rmdir(name, dir_fd=folder.descriptor)
        except FileNotFoundError:
            pass
        except OSError:
            return
        path = os.path.dirname(path)


def remove_tree(path: str, parent: str) -> None:
    """Remove a directory with everything in it, if it exists.

    :arg parent: the directory that it has to stand in directly; a wrong name can thereby never reach anything else.
    :raises TenancyError: when it stands elsewhere, or cannot be removed.
    """
    if os.path.dirname(os.path.normpath(path)) != os.path.normpath(parent):
        raise TenancyError(f"{path} is not a directory in {parent}, and is not removed.")
    try:
        with _folder_of(path) as (folder, name):
            _remove_below(folder, name)
            os.rmdir(name, dir_fd=folder.descriptor)
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise TenancyError(f"{path} cannot be removed: {exc}") from exc


def _remove_below(folder: Folder, name: str) -> None:
    """Remove everything in a directory; of a link that stands in its place, nothing."""
    for _path, directories, files, descriptor in os.fwalk(name, topdown=False, dir_fd=folder.descriptor):
        for file in files:
            os.unlink(file, dir_fd=descriptor)
        for directory in directories:
            try:
                os.rmdir(directory, dir_fd=descriptor)
            except NotADirectoryError:
                # A link to a directory.
                os.unlink(directory, dir_fd=descriptor)


def list_directory(path: str) -> list[str]:
    """Return the names in a directory, sorted; none when it does not exist."""
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


@contextlib.contextmanager
def _folder_of(path: str, identity: Identity | None = None) -> t.Iterator[tuple[Folder, str]]:
    """Open the folder that a file or directory stands in, and return it with the name there.

    :arg identity: of the folder that was read from; None where nothing was read.
    :raises TenancyError: when it is another one, and when root finds one of another user; no user can exchange the kernel's files.
    :raises FileNotFoundError: when there is no such folder.
    """
    directory, name = os.path.split(os.path.abspath(path))
    with reach(directory) as folder:
        if not is_kernel_file(path):
            folder.require_trusted()
        folder.require(identity)
        yield folder, name


class Files:
    """The host's files, as an adapter that is handed to a lifecycle."""

    read = staticmethod(read_file)
    write = staticmethod(write_file)
    exists = staticmethod(os.path.exists)
    names = staticmethod(list_directory)
    make_directories = staticmethod(make_directories)
    remove = staticmethod(remove_file)
    remove_written = staticmethod(remove_written)
    remove_empty = staticmethod(remove_empty)
    remove_tree = staticmethod(remove_tree)
