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
import tarfile
import typing as t
import zlib

from .._common.errors import TenancyError

# Bytes that are sent or hashed at once; a multiple of three, which base64 makes whole groups of.
_PIECE = 3 * 2**14
# Bytes that an archive may unpack to.
LARGEST_CONTENT = 8 * 2**30


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

        :raises TenancyError: where it is damaged, cut off, or unpacks to more than LARGEST_CONTENT.
        """
        size = 0
        try:
            with gzip.open(self.path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
                for entry in archive:
                    size += entry.size
                    if size > LARGEST_CONTENT:
                        raise TenancyError(f"The archive {self.path} unpacks to more than {LARGEST_CONTENT} bytes.")
                    yield entry.name if entry.name.startswith("/") else f"/{entry.name}"
                # The checksum of what was unpacked stands at the end.
                while stream.read(_PIECE):
                    pass
        except (tarfile.TarError, zlib.error, EOFError, OSError) as exc:
            raise TenancyError(f"The archive {self.path} is damaged: {exc}") from exc

    def _read(self) -> t.Iterator[bytes]:
        with open(self.path, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece
