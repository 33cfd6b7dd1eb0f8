# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of kubeconfig files that root writes into folders of other users, who may exchange what stands there at any time."""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubeconfig_file import KubeconfigFile
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.owners import ALICE, MALLORY, Owners


@pytest.fixture(name="owners")
def _owners(monkeypatch: pytest.MonkeyPatch) -> Owners:
    return Owners(monkeypatch)


class Home:
    """Alice's home with a kubeconfig of hers, and root's beside it."""

    def __init__(self, top: pathlib.Path, owners: Owners) -> None:
        self.kube = top / "alice" / ".kube"
        self.path = self.kube / "config"
        self.roots = top / "root" / ".kube" / "config"
        for path in (self.path, self.roots):
            path.parent.mkdir(parents=True)
            path.write_bytes(b"root's\n" if path == self.roots else b"alice's\n")
            path.chmod(0o600)
        for path in (self.path, self.kube, self.kube.parent):
            owners.give(path, ALICE)
        self._owners = owners

    def swap_for_a_link(self) -> None:
        self.kube.rename(self.kube.with_name("former"))
        self.kube.symlink_to(self.roots.parent)
        self._owners.give(self.kube, ALICE)

    def swap_for_another_link(self) -> None:
        """One that root made, and that alice may move about in her home."""
        self.kube.rename(self.kube.with_name("former"))
        self.kube.symlink_to(self.roots.parent)

    def swap_for_a_folder(self) -> None:
        self.kube.rename(self.kube.with_name("former"))
        self.kube.mkdir()
        self._owners.give(self.kube, ALICE)
        self.path.write_bytes(b"another\n")

    def swap_for_roots_folder(self) -> None:
        """One of root's that stood in her home."""
        self.kube.rename(self.kube.with_name("former"))
        self.kube.mkdir()
        self.path.write_bytes(b"another\n")


SWAPS = [Home.swap_for_a_link, Home.swap_for_another_link, Home.swap_for_a_folder, Home.swap_for_roots_folder]


@pytest.fixture(name="home")
def _home(tmp_path: pathlib.Path, owners: Owners) -> Home:
    return Home(tmp_path, owners)


def contents(top: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in top.rglob("*") if path.is_file()}


@pytest.mark.parametrize("act", ["write", "remove"])
@pytest.mark.parametrize("swap", SWAPS)
def test_a_folder_that_was_exchanged_since_it_was_read_is_left_alone(
    tmp_path: pathlib.Path, home: Home, owners: Owners, swap: t.Callable[[Home], None], act: str
) -> None:
    file = KubeconfigFile(str(home.path))
    assert file.read() == b"alice's\n"
    swap(home)
    before = contents(tmp_path)
    with pytest.raises(TenancyError, match=r"^path: .*/\.kube is (a symbolic link of|not the folder any more)"):
        file.write(b"alice's, and the tenant's\n") if act == "write" else file.remove()
    assert contents(tmp_path) == before
    assert owners.of(home.roots) == 0


@pytest.mark.parametrize("swap", SWAPS[:2])
def test_a_link_from_the_start_is_not_followed(tmp_path: pathlib.Path, home: Home, swap: t.Callable[[Home], None]) -> None:
    swap(home)
    before = contents(tmp_path)
    with pytest.raises(TenancyError, match=r"^path: .*/\.kube is a symbolic link of .*, and is not followed"):
        KubeconfigFile(str(home.path)).read()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("there", [True, False])
def test_in_somebody_elses_folder_the_file_is_that_users(home: Home, owners: Owners, there: bool) -> None:
    if not there:
        home.path.unlink()
    file = KubeconfigFile(str(home.path))
    assert file.read() == (b"alice's\n" if there else None)
    file.write(b"new\n")
    assert (owners.of(home.path), home.path.stat().st_mode & 0o777) == (ALICE, 0o600)
    assert home.path.read_bytes() == b"new\n"
    assert KubeconfigFile(str(home.path)).read() == b"new\n"


@pytest.mark.parametrize("owner", [0, MALLORY])
def test_what_is_not_that_users_is_not_given_to_that_user(home: Home, owners: Owners, owner: int) -> None:
    owners.give(home.path, owner)
    with pytest.raises(
        TenancyError, match=rf"^path: {home.path} belongs to .*, and its folder to user {ALICE}, and stays as it is"
    ):
        KubeconfigFile(str(home.path)).read()


def test_root_owns_what_it_makes_in_a_folder_of_its_own(tmp_path: pathlib.Path, owners: Owners) -> None:
    file = KubeconfigFile(str(tmp_path / "here" / "config"))
    assert (file.read(), file.has_folder) == (None, False)
    file.make_folder(0o700)
    file.write(b"new\n")
    assert owners.of(tmp_path / "here" / "config") == 0
    # That of a user whom root gave it to stays that user's.
    owners.give(tmp_path / "here" / "config", ALICE)
    file = KubeconfigFile(str(tmp_path / "here" / "config"))
    assert (file.read(), file.has_folder) == (b"new\n", True)
    file.write(b"newer\n")
    assert owners.of(tmp_path / "here" / "config") == ALICE


def test_who_the_file_is_given_to_is_whose_it_was_when_it_was_read(tmp_path: pathlib.Path, owners: Owners) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"root's\n")
    file = KubeconfigFile(str(path))
    assert file.read() == b"root's\n"
    owners.give(path, MALLORY)
    file.write(b"root's, too\n")
    assert owners.of(path) == 0


def test_a_folder_that_everybody_may_write_to_is_refused_with_what_to_do(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(TenancyError, match=rf"^path: {tmp_path} may be written to by others .*chmod go-w {tmp_path}"):
        KubeconfigFile(str(tmp_path / "config")).read()


def test_a_link_of_an_ordinary_user_leads_on(tmp_path: pathlib.Path) -> None:
    """As of one who keeps a home in a repository."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / ".kube").symlink_to("dotfiles")
    file = KubeconfigFile(str(tmp_path / ".kube" / "config"))
    assert file.read() is None
    file.write(b"new\n")
    assert (tmp_path / "dotfiles" / "config").read_bytes() == b"new\n"
    assert os.listdir(tmp_path / "dotfiles") == ["config"]
