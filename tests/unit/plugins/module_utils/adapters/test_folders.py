# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the way to a folder, and of what is read in it."""

from __future__ import annotations

import concurrent.futures
import errno
import os
import pathlib
import socket
import types
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import folders
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.folders import Held, reach
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.owners import ALICE, MALLORY, Owners


@pytest.fixture(name="owners")
def _owners(monkeypatch: pytest.MonkeyPatch) -> Owners:
    return Owners(monkeypatch)


def arrives(path: pathlib.Path, **more: t.Any) -> str:
    with reach(str(path), **more) as folder:
        assert folder.identity == (os.fstat(folder.descriptor).st_dev, os.fstat(folder.descriptor).st_ino)
        return folder.path


def test_the_innermost_that_exists_is_opened(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").mkdir()
    with reach(f"{tmp_path}/a/b/../b/c/") as folder:
        assert (folder.path, folder.missing) == (f"{tmp_path}/a", [f"{tmp_path}/a/b", f"{tmp_path}/a/b/c"])
        with pytest.raises(FileNotFoundError):
            folder.require()
    with reach(f"{tmp_path}/a/b/c", 0o700) as folder:
        assert (folder.path, folder.missing) == (f"{tmp_path}/a/b/c", [])
        assert folder.made == [f"{tmp_path}/a/b", f"{tmp_path}/a/b/c"]
        folder.require()


def test_no_descriptor_is_left_open(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    before = os.listdir("/proc/self/fd")
    for name in ("missing", "file", "loop", "."):
        try:
            with reach(f"{tmp_path}/{name}") as folder:
                folder.read("file")
                folder.read("loop")
        except (OSError, TenancyError):
            pass
    assert os.listdir("/proc/self/fd") == before


def test_a_folder_on_the_way_need_not_be_readable(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    open_file = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, **more: opened.append(flags) or open_file(path, flags, **more))
    arrives(tmp_path)
    assert all(flags & os.O_PATH and flags & os.O_NOFOLLOW for flags in opened)


# --- links on the way ---


@pytest.mark.parametrize("target", ["{top}/real/deep", "real/deep", "./real/../real/deep", "../{name}/real//deep", "again"])
def test_a_link_of_ones_own_is_followed(tmp_path: pathlib.Path, target: str) -> None:
    (tmp_path / "real" / "deep" / "folder").mkdir(parents=True)
    (tmp_path / "again").symlink_to("real/deep")
    (tmp_path / "link").symlink_to(target.format(top=tmp_path, name=tmp_path.name))
    assert arrives(tmp_path / "link" / "folder") == f"{tmp_path}/real/deep/folder"
    assert arrives(tmp_path / "link") == f"{tmp_path}/real/deep"
    with pytest.raises(TenancyError, match=f"^{tmp_path}/link is a symbolic link of .*, and is not followed"):
        arrives(tmp_path / "link", links=False)
    assert arrives(tmp_path / "link" / "folder", links=False) == f"{tmp_path}/real/deep/folder"


def test_a_link_of_the_system_is_followed() -> None:
    assert arrives(pathlib.Path("/proc/self/fd")).startswith("/proc/")


@pytest.mark.parametrize(("link", "folder"), [(MALLORY, 0), (ALICE, ALICE), (0, ALICE)])
def test_a_link_that_somebody_else_could_have_made_or_moved_there_is_not(
    tmp_path: pathlib.Path, owners: Owners, link: int, folder: int
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "real").mkdir()
    (home / "link").symlink_to(tmp_path / "real")
    owners.give(home / "link", link)
    owners.give(home, folder)
    with pytest.raises(TenancyError, match=f"^{home}/link is a symbolic link of .*, and is not followed: name the folder itself"):
        arrives(home / "link" / "below")


def test_a_link_of_somebody_else_is_not_followed_by_an_ordinary_user_either(
    tmp_path: pathlib.Path, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    owners.give(tmp_path / "link", MALLORY)
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)
    with pytest.raises(TenancyError, match="is a symbolic link of"):
        arrives(tmp_path / "link")


def test_links_in_a_circle_end(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        arrives(tmp_path / "a" / "c")


def test_a_file_in_the_way_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        arrives(tmp_path / "file" / "below")


# --- folders that others may write to ---


@pytest.mark.parametrize(("mode", "allowed"), [(0o755, True), (0o777, False), (0o1777, True), (0o757, False), (0o775, False)])
@pytest.mark.parametrize("below", [".", "below"])
def test_where_everybody_may_exchange_files_nothing_is_done(
    tmp_path: pathlib.Path, owners: Owners, mode: int, allowed: bool, below: str
) -> None:
    shared = tmp_path / "shared"
    (shared / "below").mkdir(parents=True)
    owners.give(shared, ALICE)
    shared.chmod(mode)
    if allowed:
        assert arrives(shared / below)
        return
    with pytest.raises(
        TenancyError, match=rf"^{shared} may be written to by others than its owner user {ALICE} \(mode 0{mode:o}.*chmod go-w"
    ):
        arrives(shared / below)


def test_for_an_ordinary_user_the_last_one_counts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "shared" / "below"
    below.mkdir(parents=True)
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)
    assert arrives(below)
    below.chmod(0o777)
    with pytest.raises(TenancyError, match=f"^{below} may be written to by others"):
        arrives(below)


@pytest.mark.parametrize(
    ("name", "members", "allowed"),
    [("alice", [], True), ("alice", ["alice"], True), ("alice", ["mallory"], False), ("staff", [], False)],
)
def test_a_group_of_ones_own_is_nobody_else(
    tmp_path: pathlib.Path, owners: Owners, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], allowed: bool
) -> None:
    owners.give(tmp_path, ALICE)
    tmp_path.chmod(0o775)
    monkeypatch.setattr("pwd.getpwuid", lambda _uid: types.SimpleNamespace(pw_name="alice"))
    monkeypatch.setattr("grp.getgrgid", lambda _gid: types.SimpleNamespace(gr_name=name, gr_mem=members))
    if allowed:
        assert arrives(tmp_path)
        return
    with pytest.raises(TenancyError, match=f"its owner alice .*group {name}"):
        arrives(tmp_path)


def test_where_everybody_may_make_a_folder_it_is_not_taken_from_somebody_else(tmp_path: pathlib.Path, owners: Owners) -> None:
    theirs = tmp_path / "tmp" / "kube"
    theirs.mkdir(parents=True)
    (tmp_path / "tmp").chmod(0o1777)
    assert arrives(theirs)
    owners.give(theirs, MALLORY)
    with pytest.raises(
        TenancyError, match=f"^{theirs} belongs to user {MALLORY}, and stands in a folder in which everybody may make one"
    ):
        arrives(theirs)


def test_whose_the_folders_on_the_way_are(tmp_path: pathlib.Path, owners: Owners) -> None:
    kube = tmp_path / "alice" / ".kube"
    kube.mkdir(parents=True)
    owners.give(tmp_path / "alice", ALICE)
    with reach(str(kube)) as folder:
        assert (folder.others, folder.owner) == ({f"{tmp_path}/alice": ALICE}, (None, None))
        with pytest.raises(TenancyError, match=f"^{tmp_path}/alice belongs to user {ALICE}, who could exchange what root writes"):
            folder.require_trusted()
    owners.give(kube, ALICE)
    with reach(str(kube)) as folder:
        assert folder.owner == (ALICE, ALICE)
    with reach(str(tmp_path)) as folder:
        folder.require_trusted()


def test_root_of_the_host_is_root_in_a_user_namespace_too(
    tmp_path: pathlib.Path, owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There, the number of all users of the host is this one.
    owners.give(tmp_path, 65534)
    fstat, top = os.fstat, os.stat("/").st_ino

    def told(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        return os.stat_result((*found[:4], 65534, *found[5:])) if found.st_ino == top else found

    monkeypatch.setattr(os, "fstat", told)
    with reach(str(tmp_path)) as folder:
        folder.require_trusted()


# --- files ---


def read(path: pathlib.Path, most: int = 100) -> Held | None:
    """Read in time: a pipe must not hold it up."""

    def act() -> Held | None:
        with reach(str(path.parent)) as folder:
            return folder.read(path.name, most)

    pool = concurrent.futures.ThreadPoolExecutor(1)
    try:
        return pool.submit(act).result(timeout=20)
    finally:
        if path.is_fifo():
            # Lets a reader go that waits.
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        pool.shutdown()


def test_a_file_is_what_its_descriptor_says(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    path.chmod(0o640)
    os.utime(path, (1795514520, 1795514520))

    def looked(*_args: object, **_more: object) -> t.NoReturn:
        raise AssertionError("a look at a path says what stands there now")

    uid, gid = path.stat().st_uid, path.stat().st_gid
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", looked)
        patch.setattr(os, "lstat", looked)
        with reach(str(tmp_path)) as folder:
            held = folder.read("file")
    assert held == Held(b"x", 0o640, uid, gid, 1795514520)
    assert read(tmp_path / "none") is None


def sock(path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as address:
        address.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, pathlib.Path.mkdir, sock])
def test_what_is_no_file_is_refused_at_once(tmp_path: pathlib.Path, make: t.Callable[[pathlib.Path], None]) -> None:
    make(tmp_path / "a")
    with pytest.raises(TenancyError, match=f"^{tmp_path}/a cannot be read: it is no regular file"):
        read(tmp_path / "a")


@pytest.mark.parametrize("put", ["pipe", "link"])
def test_what_is_put_there_in_the_last_moment_is_refused_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, put: str
) -> None:
    (tmp_path / "secret").write_bytes(b"of root")
    path, open_file = tmp_path / "a", os.open
    path.write_bytes(b"x")

    def swapping(name: str, flags: int, *args: int, **more: int) -> int:
        if name == "a":
            path.unlink()
            os.mkfifo(path) if put == "pipe" else path.symlink_to("secret")
        return open_file(name, flags, *args, **more)

    monkeypatch.setattr(os, "open", swapping)
    with pytest.raises(TenancyError, match=r"is no regular file|is a symbolic link to .*/secret: name the file itself"):
        read(path)


def test_so_much_is_read_and_no_more(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    held = read(path)
    assert held is not None
    assert len(held.content) == 100
    path.write_bytes(b"x" * 101)
    with pytest.raises(TenancyError, match=f"^{path} cannot be read: it has more than 100 bytes"):
        read(path)


@pytest.mark.parametrize(
    ("folder", "file", "mode", "allowed"),
    [
        (ALICE, ALICE, 0o755, True),
        # What root's file holds is not for alice, who may have moved it there, and what mallory wrote is not for her either.
        (ALICE, 0, 0o755, False),
        (ALICE, MALLORY, 0o755, False),
        # Root gave it to her.
        (0, ALICE, 0o755, True),
        (0, ALICE, 0o1777, False),
        (0, 0, 0o1777, True),
    ],
)
def test_whose_a_file_has_to_be(tmp_path: pathlib.Path, owners: Owners, folder: int, file: int, mode: int, allowed: bool) -> None:
    path = tmp_path / "kube" / "config"
    path.parent.mkdir()
    path.touch()
    owners.give(path, file)
    owners.give(path.parent, folder)
    path.parent.chmod(mode)
    if allowed:
        held = read(path)
        assert held is not None
        assert held.uid == file
        return
    with pytest.raises(TenancyError, match=f"^{path} belongs to .*, and its folder to .*, and stays as it is"):
        read(path)


def test_the_temporary_file_is_never_that_of_somebody_else(tmp_path: pathlib.Path) -> None:
    (tmp_path / "secret").write_bytes(b"of root")
    (tmp_path / folders.temporary_of("a")).symlink_to("secret")
    with reach(str(tmp_path)) as folder:
        folder.replace("a", b"new", 0o600)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "secret").read_bytes()) == (b"new", b"of root")
    assert sorted(os.listdir(tmp_path)) == ["a", "secret"]


def test_folders_that_another_process_makes_meanwhile_are_no_error(tmp_path, monkeypatch):
    make, path = os.mkdir, tmp_path / "a/b"

    def late(name, *args, **how):
        make(name, *args, **how)
        if name == "a":
            raise FileExistsError(name)

    monkeypatch.setattr(os, "mkdir", late)
    with reach(str(path), 0o700) as folder:
        assert folder.made == [str(path)]
