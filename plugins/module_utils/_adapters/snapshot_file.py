# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to the file of a snapshot on its way from and to a container, by base64, because commands there read and write text."""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import os
import re
import tarfile
import typing as t
import zlib

from .._common.errors import TenancyError
from .._common.quantity import whole
from .._common.text import shown

# Bytes that are sent or hashed at once; a multiple of three, which base64 makes whole groups of.
_PIECE = 3 * 2**14
# Bytes that an archive may unpack to.
LARGEST_CONTENT = 8 * 2**30
# Bytes of a header that holds a long name.
_LARGEST_HEADER = 2**16
# Of such a header, a line for each fact (POSIX.1-2001, pax); these two are read.
_EXTENDED = re.compile(r"^\d+ (path|size)=(.*)$", re.MULTILINE)


class SnapshotFile:
    """A file with a snapshot, in a folder that belongs to this user alone."""

    def __init__(self, path: str) -> None:
        self.path = path

    def receive(self, most: int) -> t.Callable[[str], None]:
        """Begin the file anew, and return what takes its content in base64, piece by piece, and an empty piece at the end.

        :arg most: bytes of the content.
        :raises ValueError: from there, where that is no base64, or too much.
        :raises OSError: from there, where it cannot be written, as on a disk that is full.
        """
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        file = os.fdopen(descriptor, "wb")
        rest, size = "", 0

        def take(piece: str) -> None:
            nonlocal rest, size
            text = rest + "".join(piece.split())
            whole = len(text) - len(text) % 4 if piece else len(text)
            rest = text[whole:]
            try:
                content = base64.b64decode(text[:whole], validate=True)
            except binascii.Error as exc:
                raise ValueError(f"what arrives is no base64: {exc}") from exc
            size += len(content)
            if size > most:
                raise ValueError(f"the archive has more than {most} bytes")
            file.write(content)
            if not piece:
                file.flush()
                os.fsync(file.fileno())
                file.close()

        return take

    def pieces(self) -> t.Iterator[str]:
        """Return the content in base64, piece by piece."""
        return (base64.b64encode(piece).decode() for piece in self._read())

    def checksum(self) -> tuple[int, str]:
        """Return the size in bytes, and the SHA-256 in hexadecimal.

        :raises TenancyError: where the file cannot be read.
        """
        digest, size = hashlib.sha256(), 0
        try:
            for piece in self._read():
                digest.update(piece)
                size += len(piece)
        except OSError as exc:
            raise TenancyError(f"{self.path} cannot be read: {exc}") from exc
        return size, digest.hexdigest()

    def names(self) -> t.Iterator[str]:
        """Return the name of each entry of the archive, having read all of the archive.

        :raises TenancyError: where it is damaged, cut off, or unpacks to more than LARGEST_CONTENT bytes.
        """
        try:
            with gzip.open(self.path) as stream:
                unpacked = _Unpacked(stream)
                for name in unpacked.names():
                    yield name if name.startswith("/") else f"/{name}"
                # The checksum of what was unpacked stands at the end.
                while unpacked.read(_PIECE):
                    pass
        except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as exc:
            raise TenancyError(f"The archive {self.path} is damaged: {shown(exc)}") from exc

    def _read(self) -> t.Iterator[bytes]:
        with open(self.path, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece


class _Unpacked:
    """A tar archive, read with little memory: tarfile keeps headers of any size, and all entries."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._size = 0

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end.

        :raises ValueError: where that is more of the archive than LARGEST_CONTENT.
        """
        content = self._stream.read(size)
        self._size += len(content)
        if self._size > LARGEST_CONTENT:
            raise ValueError(f"it unpacks to more than {LARGEST_CONTENT} bytes")
        return content

    def names(self) -> t.Iterator[str]:
        """Return the names of entries, up to the end mark.

        :raises ValueError: for what no snapshot has; ``tarfile.TarError`` and EOFError where it is no archive, or cut off.
        """
        # What a header says of the entry after it.
        said: dict[str, str] = {}
        while (block := self.read(tarfile.BLOCKSIZE)).strip(b"\0"):
            entry = tarfile.TarInfo.frombuf(block, "utf-8", "replace")
            if entry.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
                said |= self._header(entry)
            elif entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
                yield said.get("path", entry.name)
                self._skip(whole(said["size"]) if "size" in said else entry.size)
                said = {}
            else:
                raise ValueError(f"an entry has the type {entry.type!r}")

    def _header(self, entry: tarfile.TarInfo) -> dict[str, str]:
        if not 0 <= entry.size <= _LARGEST_HEADER:
            raise ValueError(f"a header has {entry.size} bytes")
        text = self.read(_padded(entry.size))[: entry.size].decode(errors="replace")
        if "GNU.sparse." in text:
            raise ValueError("an entry is sparse")
        return {"path": text.rstrip("\0")} if entry.type == tarfile.GNUTYPE_LONGNAME else dict(_EXTENDED.findall(text))

    def _skip(self, size: int) -> None:
        if size < 0:
            raise ValueError(f"an entry has {size} bytes")
        left = _padded(size)
        while left > 0:
            piece = self.read(min(left, _PIECE))
            if not piece:
                raise EOFError("it ends within an entry")
            left -= len(piece)


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
