# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the adapter to the host's files; those of reading and replacing them are the journal's."""

from __future__ import annotations

import getpass
import os
import pathlib
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.files import (
    is_kernel_file,
    last_write,
    list_directory,
    make_directories,
    read_file,
    remove_empty,
    remove_file,
    remove_tree,
    write_file,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.owners import ALICE, Owners


def test_directories_that_exist_keep_their_mode(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o755)
    wanted = tmp_path / "a" / "b"
    assert make_directories(str(wanted), 0o700) == [str(tmp_path / "a"), str(wanted)]
    assert [path.stat().st_mode & 0o777 for path in (tmp_path, tmp_path / "a", wanted)] == [0o755, 0o700, 0o700]
    wanted.chmod(0o750)
    assert make_directories(str(wanted), 0o700) == []
    assert wanted.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "a/b", "a/..", "/"])
def test_a_tree_is_only_removed_directly_below_its_parent(tmp_path: pathlib.Path, name: str) -> None:
    parent = tmp_path / "kind"
    (parent / "a" / "b").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    with pytest.raises(TenancyError, match=f"is not a directory in {parent}, and is not removed"):
        remove_tree(f"{parent}/{name}", str(parent))
    assert (parent / "a" / "b").is_dir()
    assert (tmp_path / "other").is_dir()


def test_a_tree_is_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    remove_tree(str(tmp_path / "a"), str(tmp_path))
    remove_tree(str(tmp_path / "a"), str(tmp_path))
    assert list_directory(str(tmp_path)) == ["c"]
    assert list_directory(str(tmp_path / "a")) == []


def test_a_link_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "a").symlink_to(tmp_path / "theirs")
    with pytest.raises(TenancyError, match="cannot be removed"):
        remove_tree(str(tmp_path / "a"), str(tmp_path))
    assert (tmp_path / "theirs").is_dir()


def test_links_in_a_tree_are_removed_and_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, target in (("a/folder", "theirs"), ("a/b/file", "theirs/file"), ("a/b/nowhere", "nowhere")):
        (tmp_path / name).symlink_to(tmp_path / target)
    remove_tree(str(tmp_path / "a"), str(tmp_path))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "theirs"]


WAYS: list[t.Callable[[pathlib.Path], object]] = [
    lambda path: read_file(str(path / "file")),
    lambda path: write_file(str(path / "file"), b""),
    lambda path: remove_file(str(path / "file")),
    lambda path: make_directories(str(path / "new")),
    lambda path: remove_empty(str(path / "empty"), str(path)),
    lambda path: remove_tree(str(path / "empty"), str(path)),
]


@pytest.mark.parametrize("act", WAYS)
@pytest.mark.parametrize("there", ["folder", "below", "link"])
def test_root_does_nothing_where_another_user_may_exchange_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, act: t.Callable[[pathlib.Path], object], there: str
) -> None:
    owners = Owners(monkeypatch)
    home = tmp_path / "home"
    real = home / "real"
    for path in (real, tmp_path / "roots"):
        (path / "empty").mkdir(parents=True)
        (path / "file").write_bytes(b"x")
    (home / "link").symlink_to(tmp_path / "roots")
    owners.give(home, ALICE)
    if there == "folder":
        owners.give(real, ALICE)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TenancyError, match=f"{home}.* (belongs to user {ALICE}|is a symbolic link of)"):
        act(home / "link" if there == "link" else real)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "roots" / "file").read_bytes() == b"x"


@pytest.mark.parametrize("path", ["/proc/sys/fs/inotify/max_user_instances", "/sys/class/net/lo/mtu"])
def test_settings_of_the_kernel_are_read(path: str) -> None:
    """The kernel fills no buffer of megabytes with one."""
    assert read_file(path) == pathlib.Path(path).read_bytes()


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/proc/sys/fs/file-max", True), ("/proc/../etc/passwd", False), ("/sys/x", True), ("/system/x", False)],
)
def test_what_belongs_to_the_kernel(path: str, expected: bool) -> None:
    assert is_kernel_file(path) is expected


@pytest.mark.parametrize(
    ("path", "left"),
    [("top/a/b", []), ("top/a", ["top", "top/a", "top/a/b"]), ("top/../other", ["other", "top", "top/a", "top/a/b"])],
)
def test_only_what_is_empty_and_below_the_top_is_removed(tmp_path: pathlib.Path, path: str, left: list[str]) -> None:
    (tmp_path / "top" / "a" / "b").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    remove_empty(f"{tmp_path}/{path}", f"{tmp_path}/top")
    assert sorted(str(found.relative_to(tmp_path)) for found in tmp_path.rglob("*")) == sorted({*left, "other"})


def test_whose_a_file_is_and_since_when(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    assert last_write(str(path)) is None
    path.touch()
    os.utime(path, (1795514520, 1795514520))
    assert last_write(str(path)) == ("2026-11-24T10:02:00Z", f"owner {getpass.getuser()}")
    # As of a user who was removed.
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert last_write(str(path)) == ("2026-11-24T10:02:00Z", f"owner {os.geteuid()}")


def test_kernel_files_have_no_time_of_their_own() -> None:
    assert last_write("/proc/sys/kernel/ostype") is None
