# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import tarfile
import tracemalloc

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import snapshot_file
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.snapshot_file import SnapshotFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

NAME, END = "registry/secrets/default/a", bytes(1024)
LONG = f"registry/secrets/{'n' * 300}/a"
MIB = 2**20


def padded(content):
    return content + bytes(-len(content) % 512)


def entry(content=b"", name=NAME, kind=tarfile.REGTYPE, size=None, form=tarfile.GNU_FORMAT, **pax):
    """Return an entry of an archive; ``size``, the one that its header says."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.pax_headers = len(content) if size is None else size, kind, pax
    return info.tobuf(form) + padded(content)


def checked(header):
    """Return a header with the checksum of what it now holds."""
    total = 256 + sum(header[:148]) + sum(header[156:])
    return bytes(header[:148] + b"%06o\0 " % total + header[156:])


def with_size(field):
    """Return an entry whose size is written so."""
    header = bytearray(entry())
    header[124:136] = field
    return checked(header)


@pytest.fixture(name="put")
def _put(tmp_path):
    def put(*parts):
        with gzip.open(tmp_path / "archive", "wb", 1) as file:
            for part in parts:
                file.write(part)
        return SnapshotFile(str(tmp_path / "archive"))

    return put


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (tarfile.USTAR_FORMAT, f"/{NAME}"),
        (tarfile.USTAR_FORMAT, f"registry/secrets/{'n' * 90}/a"),
        (tarfile.GNU_FORMAT, LONG),
        (tarfile.PAX_FORMAT, LONG),
    ],
)
def test_entries_of_every_format_are_named(put, form, name):
    file = put(entry(b"abc", form=form), entry(b"x" * 2000, name=name, form=form), entry(b"", "z", form=form), END)
    assert list(file.names()) == [f"/{NAME}", f"/{name.lstrip('/')}", "/z"]


def test_a_size_in_an_extended_header_counts(put):
    extended = entry(b"13 size=2000\n", kind=tarfile.XHDTYPE)
    assert list(put(extended, entry(b"x" * 2000, size=0), entry(name="z"), END).names()) == [f"/{NAME}", "/z"]


@pytest.mark.parametrize(
    "parts",
    [
        (entry(b"abc", size=3000),),
        (entry(b"abc"), b"garbage" * 100, END),
        (b"hello" * 1000,),
        (entry(b"abc\ndef\n", form=tarfile.PAX_FORMAT, **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), END),
        (entry(kind=tarfile.GNUTYPE_SPARSE), END),
        (entry(kind=tarfile.SYMTYPE), END),
        (entry(b"9 size=x\n", kind=tarfile.XHDTYPE), entry(), END),
        (entry(b"10 size=-1\n", kind=tarfile.XHDTYPE), entry(), END),
        (entry(b"4010 size=" + b"9" * 4000 + b"\n", kind=tarfile.XHDTYPE), entry(), END),
        (with_size(b"\xff" * 12), END),
        (with_size(b"\x80\x00\x00\x00\xff" + b"\xff" * 7), END),
    ],
)
def test_a_malformed_archive_is_named(put, parts):
    with pytest.raises(TenancyError, match=r"archive .* is damaged: ."):
        list(put(*parts).names())


@pytest.mark.parametrize(
    "before",
    [
        lambda: (entry(kind=tarfile.XHDTYPE, size=40 * MIB), *[bytes(MIB)] * 40, entry(), END),
        lambda: (entry(kind=tarfile.GNUTYPE_LONGNAME, size=40 * MIB), *[bytes(MIB)] * 40, entry(), END),
        lambda: (entry(), END, *[bytes(MIB)] * 40),
        lambda: (entry(size=40 * MIB), *[bytes(MIB)] * 40, END),
        lambda: (*[entry() * 2000] * 40, END),
        lambda: (*[entry(b"12 path=abc\n", kind=tarfile.XHDTYPE) * 1000] * 40, END),
    ],
)
def test_what_unpacks_to_too_much_is_read_to_a_bound_and_not_kept(put, monkeypatch, before):
    monkeypatch.setattr(snapshot_file, "LARGEST_CONTENT", 10 * MIB)
    file = put(*before())
    tracemalloc.start()
    try:
        with pytest.raises(
            TenancyError, match=r"is damaged: (it unpacks to more than 10485760 bytes|a header has 41943040 bytes)"
        ):
            for _name in file.names():
                pass
        assert tracemalloc.get_traced_memory()[1] < 3 * MIB
    finally:
        tracemalloc.stop()
