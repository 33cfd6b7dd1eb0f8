# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the journal of host files, also killed at every step."""

from __future__ import annotations

import gc
import os
import pathlib
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import files
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.journal import Entry, Journal
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import LARGEST
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.owners import ALICE, Owners

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


def test_a_folder_that_was_exchanged_since_it_was_read_is_left_alone(tmp_path: pathlib.Path, journal: Journal) -> None:
    path = tmp_path / "etc" / "file"
    path.parent.mkdir()
    path.write_bytes(b"secret\n")
    assert journal.read(str(path)) == b"secret\n"
    path.parent.rename(tmp_path / "former")
    path.parent.mkdir()
    path.write_bytes(b"theirs\n")
    before = listing(tmp_path)
    with pytest.raises(TenancyError, match=f"^The folder of {path} was exchanged for another one while this ran"):
        journal.write(str(path), b"secret\n" + OURS)
    assert listing(tmp_path) == before


def test_a_folder_that_is_exchanged_while_it_is_written_is_left_alone(
    tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "etc" / "file"
    path.parent.mkdir()
    path.write_bytes(b"secret\n")

    def swapping(*args: t.Any) -> None:
        # Between the record and the file.
        save(*args)
        path.parent.rename(tmp_path / "former")
        path.parent.mkdir()

    save = journal._save
    monkeypatch.setattr(journal, "_save", swapping)
    with pytest.raises(TenancyError, match="is not the folder any more that was read from before"):
        journal.write(str(path), b"secret\n" + OURS)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("owner", [0, ALICE])
def test_a_journal_that_is_a_link_is_neither_followed_nor_tightened(
    tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch, owner: int
) -> None:
    owners = Owners(monkeypatch)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o755)
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "journal").symlink_to(theirs)
    owners.give(tmp_path / "var" / "journal", owner)
    with pytest.raises(TenancyError, match=f"^{tmp_path}/var/journal is a symbolic link of .*, and is not followed"):
        journal.write(str(tmp_path / "file"), OURS)
    assert (theirs.stat().st_mode & 0o777, list(theirs.iterdir())) == (0o755, [])
    assert not (tmp_path / "file").exists()


def test_a_pipe_is_refused_at_once(tmp_path: pathlib.Path, journal: Journal) -> None:
    os.mkfifo(tmp_path / "file")
    with pytest.raises(TenancyError, match="is no regular file"):
        journal.write(str(tmp_path / "file"), OURS)


def test_the_largest_file_comes_back(tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * LARGEST)
    journal.write(str(path), b"y" * LARGEST)
    with monkeypatch.context() as patch:
        # Until the file is written, the record has all three.
        patch.setattr(os, "replace", lambda *args, **more: _killed_at("file", os.rename, *args, **more))
        with pytest.raises(_Killed):
            journal.write(str(path), b"z" * LARGEST)
    entry = journal.entry(str(path))
    assert entry is not None
    assert len(entry.left) == 2
    assert journal.restore(str(path)) == ("restored", b"x" * LARGEST)
    path.write_bytes(b"x" * (LARGEST + 1))
    with pytest.raises(TenancyError, match=f"it has more than {LARGEST} bytes"):
        journal.read(str(path))


def _killed_at(name: str, act: t.Callable[..., None], source: str, target: str, **folders: int) -> None:
    if target == name:
        raise _Killed
    act(source, target, **folders)


class _Killed(BaseException):
    pass


PRIMITIVES = ("open", "fdopen", "fchmod", "fchown", "chmod", "fsync", "replace", "unlink", "rmdir", "mkdir")


class Killer:
    """Kills at the n-th of these calls, before or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, when: int, after: bool) -> None:
        self._left = when
        self._after = after
        for name in PRIMITIVES:
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def call(*args: t.Any, **more: t.Any) -> t.Any:
            if function.__name__ == "open" and not args[1] & os.O_CREAT:
                # What is only looked at changes nothing.
                return function(*args, **more)
            self._left -= 1
            killed = self._left == -1
            if killed and not self._after:
                raise _Killed
            try:
                return function(*args, **more)
            finally:
                if killed:
                    raise _Killed

        return call


@pytest.fixture(name="no_collector")
def _no_collector() -> t.Iterator[None]:
    """Keep other tests' temporary folders from being removed by the calls that are counted."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("original", [None, b"theirs\n"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("then", ["write", "restore"])
@pytest.mark.parametrize("what", ["write", "rewrite", "restore"])
def test_killed_anywhere_nothing_is_lost(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, original: bytes | None, after: bool, then: str, what: str
) -> None:
    for when in range(1000):
        top = tmp_path / str(when)
        path = top / "etc" / "file"
        top.mkdir()
        if original is not None:
            path.parent.mkdir()
            path.write_bytes(original)
            path.chmod(0o640)
        before = listing(top)
        journal = Journal(str(top / "var" / "journal"))
        if what != "write":
            journal.write(str(path), OURS)
        killed = False
        with monkeypatch.context() as patch:
            Killer(patch, when, after)
            try:
                if what == "restore":
                    journal.restore(str(path))
                else:
                    journal.write(str(path), b"new\n" if what == "rewrite" else OURS)
            except _Killed:
                killed = True

        entry = journal.entry(str(path))
        present = path.read_bytes() if path.exists() else None
        assert present == original or (entry is not None and entry.original == original)
        if then == "write":
            journal.write(str(path), b"newer\n")
            assert path.read_bytes() == b"newer\n"
        assert journal.restore(str(path))[0] in ("restored", "unknown")
        assert listing(top) == before
        if not killed:
            assert when > 4
            return
    raise AssertionError("it never ends")


def test_what_somebody_does_to_mode_and_owner_stays(tmp_path: pathlib.Path, journal: Journal) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs\n")
    path.chmod(0o640)
    journal.write(str(path), OURS)
    path.chmod(0o600)
    journal.write(str(path), b"second\n")
    assert path.stat().st_mode & 0o7777 == 0o600
    path.chmod(0o660)
    journal.restore(str(path))
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (b"theirs\n", 0o660)


def test_a_file_that_was_removed_meanwhile_gets_its_mode_and_owner_again(
    tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs\n")
    path.chmod(0o640)
    status = path.stat()
    journal.write(str(path), OURS)
    path.unlink()
    owners = []
    monkeypatch.setattr(os, "fchown", lambda _descriptor, uid, gid: owners.append((uid, gid)))
    journal.write(str(path), b"second\n")
    assert path.stat().st_mode & 0o777 == 0o640
    assert owners == [(-1, -1), (status.st_uid, status.st_gid)]


def test_a_loose_directory_of_the_journal_is_tightened(tmp_path: pathlib.Path, journal: Journal) -> None:
    (tmp_path / "var" / "journal").mkdir(parents=True, mode=0o755)
    journal.write(str(tmp_path / "file"), OURS)
    assert (tmp_path / "var" / "journal").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("state", ["write", "restore"])
def test_what_nobody_may_write_is_left_alone(tmp_path: pathlib.Path, journal: Journal, state: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs\n")
    if state == "restore":
        journal.write(str(path), OURS)
    path.chmod(0o444)
    before = listing(tmp_path)
    with pytest.raises(TenancyError, match=f"{path} is read-only"):
        journal.write(str(path), b"new\n") if state == "write" else journal.restore(str(path))
    assert listing(tmp_path) == before


def test_a_read_only_file_system_is_told_before_anything_is_recorded(
    tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(os, "access", lambda path, _mode, dir_fd: asked.append((path, os.fstat(dir_fd).st_ino)))
    with pytest.raises(TenancyError, match=f"{tmp_path} is not writable, or on a read-only file system"):
        journal.write(str(tmp_path / "deep" / "deeper" / "file"), OURS)
    assert asked == [(".", tmp_path.stat().st_ino)]
    assert listing(tmp_path) == {}


def test_what_cannot_be_written_leaves_no_crumbs(
    tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "etc" / "file"
    path.parent.mkdir()
    path.write_bytes(b"theirs\n")
    replace = os.replace

    def refuses(source: str, target: str, **folders: int) -> None:
        if target == path.name:
            raise PermissionError(1, "Operation not permitted", target)
        replace(source, target, **folders)

    monkeypatch.setattr(os, "replace", refuses)
    with pytest.raises(TenancyError, match=f"{path} cannot be written: .*not permitted"):
        journal.write(str(path), OURS)
    assert [(entry.name, entry.read_bytes()) for entry in path.parent.iterdir()] == [("file", b"theirs\n")]


def test_a_broken_entry_is_told_by_its_name(tmp_path: pathlib.Path, journal: Journal) -> None:
    path = tmp_path / "file"
    journal.write(str(path), OURS)
    [entry] = (tmp_path / "var" / "journal").iterdir()
    for content in (b"", b"{", b"[]", b"[" * 100_000, b'{"original": null, "left": []}'):
        entry.write_bytes(content)
        with pytest.raises(TenancyError, match=f"{entry} is damaged, so that what {path} held before is not known"):
            journal.write(str(path), b"new\n")
        assert path.read_bytes() == OURS


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("original", [None, b"theirs\n"])
def test_rolled_back(tmp_path: pathlib.Path, journal: Journal, original: bytes | None, removed: bool) -> None:
    path = tmp_path / "etc" / "file"
    if original is not None:
        path.parent.mkdir()
        path.write_bytes(original)
    before, entry = listing(tmp_path), journal.entry(str(path))
    journal.write(str(path), OURS)
    journal.roll_back(str(path), original, entry)
    assert listing(tmp_path) == before

    journal.write(str(path), OURS)
    before, entry = listing(tmp_path), journal.entry(str(path))
    if removed:
        journal.restore(str(path), forget=False)
    else:
        journal.write(str(path), b"new\n")
    journal.roll_back(str(path), OURS, entry)
    assert listing(tmp_path) == before


def test_kernel_files_are_written_in_place(tmp_path: pathlib.Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "IN_PLACE", (str(tmp_path / "proc"),))
    path = tmp_path / "proc" / "value"
    path.parent.mkdir()
    path.write_bytes(b"128\n")
    inode = path.stat().st_ino
    journal.write(str(path), b"8192\n")
    assert (path.read_bytes(), path.stat().st_ino) == (b"8192\n", inode)
    assert journal.restore(str(path)) == ("restored", b"128\n")
