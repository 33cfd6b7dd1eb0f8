# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the journal of host files, also killed at every step."""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils import _journal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._journal import Entry, Journal

OURS = b"ours\n"


@pytest.fixture
def journal(tmp_path: pathlib.Path) -> Journal:
    return Journal(str(tmp_path / "var" / "journal"))


def strip(present: bytes, _entry: Entry) -> bytes | None:
    return present.replace(OURS, b"") or None


def listing(top: pathlib.Path) -> dict[str, tuple[int, bytes | None]]:
    return {
        str(path.relative_to(top)): (path.stat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in top.rglob("*")
    }


@pytest.mark.parametrize("original", [None, b"", b"theirs\n", b"\xff\x00"])
def test_what_was_there_comes_back(tmp_path: pathlib.Path, journal: Journal, original: bytes | None) -> None:
    path = tmp_path / "etc" / "deep" / "file"
    if original is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(original)
        path.chmod(0o640)
    before = listing(tmp_path)

    journal.write(str(path), OURS)
    assert path.read_bytes() == OURS
    assert path.stat().st_mode & 0o777 == (0o644 if original is None else 0o640)
    journal.write(str(path), b"ours, second edition\n")

    assert journal.restore(str(path), dry=True) == ("restored", original)
    assert path.read_bytes() == b"ours, second edition\n"
    assert journal.restore(str(path)) == ("restored", original)
    assert listing(tmp_path) == before
    assert journal.restore(str(path)) == ("unknown", original)


def test_the_journal_is_for_root_only(tmp_path: pathlib.Path, journal: Journal) -> None:
    journal.write(str(tmp_path / "file"), OURS)
    directory = tmp_path / "var" / "journal"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert [entry.stat().st_mode & 0o777 for entry in directory.iterdir()] == [0o600]


@pytest.mark.parametrize(
    ("edited", "outcome", "content"),
    [
        (b"theirs\nours\nmore\n", "merged", b"theirs\nmore\n"),
        (OURS, "restored", b"theirs\n"),
        (None, "merged", None),
    ],
)
def test_edits_survive(
    tmp_path: pathlib.Path, journal: Journal, edited: bytes | None, outcome: str, content: bytes | None
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs\n")
    journal.write(str(path), OURS)
    if edited is None:
        path.unlink()
    else:
        path.write_bytes(edited)
    assert journal.restore(str(path), strip) == (outcome, content)
    assert (path.read_bytes() if path.exists() else None) == content


def test_an_edit_without_a_merge_is_left_alone(tmp_path: pathlib.Path, journal: Journal) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs\n")
    journal.write(str(path), OURS)
    path.write_bytes(b"edited\n")
    assert journal.restore(str(path)) == ("edited", b"edited\n")
    entry = journal.entry(str(path))
    assert entry is not None
    assert entry.original == b"theirs\n"


def test_an_edit_before_our_second_write_is_part_of_what_comes_back(tmp_path: pathlib.Path, journal: Journal) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs\n")
    journal.write(str(path), b"theirs\n" + OURS, strip)
    path.write_bytes(b"theirs\n" + OURS + b"more\n")
    journal.write(str(path), b"theirs\nmore\nsecond\n", strip)
    assert journal.restore(str(path), strip) == ("restored", b"theirs\nmore\n")


def test_links_are_refused(tmp_path: pathlib.Path, journal: Journal) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(TenancyError, match="symbolic link"):
        journal.write(str(tmp_path / "link"), OURS)


class _Killed(BaseException):
    pass


CALLS = [(os, "replace"), (os, "fsync"), (os, "unlink"), (os, "rmdir"), (os, "mkdir")]


@pytest.mark.parametrize("original", [None, b"theirs\n"])
@pytest.mark.parametrize("when", range(16))
@pytest.mark.parametrize("what", ["write", "rewrite", "restore"])
def test_killed_anywhere_nothing_is_lost(
    tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, original: bytes | None, when: int, what: str
) -> None:
    path = tmp_path / "etc" / "file"
    if original is not None:
        path.parent.mkdir()
        path.write_bytes(original)
    before = listing(tmp_path)
    if what != "write":
        journal.write(str(path), OURS)

    left = when

    def dies(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def call(*args: t.Any, **kwargs: t.Any) -> t.Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise _Killed
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for module, name in CALLS:
            patch.setattr(module, name, dies(getattr(module, name)))
        try:
            if what == "restore":
                journal.restore(str(path))
            else:
                journal.write(str(path), b"new\n" if what == "rewrite" else OURS)
        except _Killed:
            pass

    assert journal.restore(str(path))[0] in ("restored", "unknown")
    assert listing(tmp_path) == before


def test_kernel_files_are_written_in_place(tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_journal, "IN_PLACE", (str(tmp_path / "proc"),))
    path = tmp_path / "proc" / "value"
    path.parent.mkdir()
    path.write_bytes(b"128\n")
    inode = path.stat().st_ino
    journal.write(str(path), b"8192\n")
    assert (path.read_bytes(), path.stat().st_ino) == (b"8192\n", inode)
    assert journal.restore(str(path)) == ("restored", b"128\n")
