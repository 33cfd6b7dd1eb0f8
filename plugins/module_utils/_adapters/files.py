# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the host's files: read them, replace them in one step, make and remove directories."""

from __future__ import annotations

import contextlib
import datetime
import os
import pwd
import shutil
import stat

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Write
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.facts import TIME

# Kernel files take a value in place; nothing can be renamed onto them.
IN_PLACE = ("/proc/", "/sys/")


def read_file(path: str) -> bytes | None:
    """Return a file's bytes, or None when there is no file.

    :raises TenancyError: when it is no regular file, or cannot be read.
    """
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


def last_write(path: str) -> Write | None:
    """Return when a file was written last, and whose it is; None without one, and for kernel files, whose times say nothing."""
    if is_kernel_file(path):
        return None
    try:
        status = os.lstat(path)
    except OSError:
        return None
    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = str(status.st_uid)
    return Write(datetime.datetime.fromtimestamp(status.st_mtime, datetime.timezone.utc).strftime(TIME), f"owner {owner}")


def write_file(path: str, content: bytes, mode: int = 0o644, uid: int | None = None, gid: int | None = None) -> None:
    """Replace a file in one step that survives a crash.

    :arg uid: the owner; None for the user that runs this. ``gid`` alike.
    :raises TenancyError: when it cannot be written; the former file is then still there.
    """
    try:
        if is_kernel_file(path):
            with open(path, "wb") as stream:
                stream.write(content)
            return
        temporary = temporary_of(path)
        # Never a file that somebody else put there.
        remove_file(temporary)
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
            remove_file(temporary)
            raise
        _sync(os.path.dirname(path))
    except OSError as exc:
        raise TenancyError(f"{path} cannot be written: {exc}") from exc


def is_kernel_file(path: str) -> bool:
    """Tell whether a file is a setting of the kernel, which is written in place."""
    return path.startswith(IN_PLACE)


def temporary_of(path: str) -> str:
    """Return the path under which a file is prepared; always the same, so that the next run removes what a killed one left."""
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.kubegpu")


def remove_file(path: str) -> None:
    """Remove a file, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def missing_directories(directory: str) -> list[str]:
    """Return the directories that have to be made for this one, outermost first."""
    missing: list[str] = []
    while not os.path.isdir(directory):
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    return missing


def make_directories(path: str, mode: int = 0o755) -> list[str]:
    """Create a directory with its parents, and return those that were created, outermost first.

    :arg mode: of those that are created; directories that exist keep theirs.
    """
    missing = missing_directories(path)
    for directory in missing:
        os.mkdir(directory, mode)
    return missing


def remove_empty(path: str, top: str) -> None:
    """Remove a directory and its parents up to and including ``top``, as far as they are empty; nothing outside of ``top``."""
    path, top = os.path.normpath(path), os.path.normpath(top)
    while path == top or path.startswith(f"{top}/"):
        try:
            os.rmdir(path)
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
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise TenancyError(f"{path} cannot be removed: {exc}") from exc


def list_directory(path: str) -> list[str]:
    """Return the names in a directory, sorted; none when it does not exist."""
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Files:
    """The host's files, as an adapter that is handed to a lifecycle."""

    read = staticmethod(read_file)
    write = staticmethod(write_file)
    exists = staticmethod(os.path.exists)
    names = staticmethod(list_directory)
    make_directories = staticmethod(make_directories)
    remove = staticmethod(remove_file)
    remove_empty = staticmethod(remove_empty)
    remove_tree = staticmethod(remove_tree)
