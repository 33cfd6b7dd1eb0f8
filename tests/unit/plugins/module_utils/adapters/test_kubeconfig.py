# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubeconfig import kubeconfig_exists, read_kubeconfig
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import LARGEST


def test_a_kubeconfig_is_read(tmp_path, monkeypatch):
    (tmp_path / "a.yml").write_text("clusters: []\n")
    assert read_kubeconfig(str(tmp_path / "a.yml")) == {"clusters": []}
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_kubeconfig("~/a.yml") == {"clusters": []}
    assert kubeconfig_exists("~/a.yml")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"a: b: c", b"\xff\xfe", b"text", b"\x00", b"[" * 100_000, b"a: " * 100_000, b"a: b\n" + b"#" * LARGEST],
)
def test_what_is_no_kubeconfig_is_none_and_still_there(tmp_path, content):
    (tmp_path / "a.yml").write_bytes(content)
    assert read_kubeconfig(str(tmp_path / "a.yml")) is None
    assert kubeconfig_exists(str(tmp_path / "a.yml"))


def test_a_folder_and_a_dangling_link_are_in_its_place(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("folder", "link"):
        assert read_kubeconfig(str(tmp_path / name)) is None
        assert kubeconfig_exists(str(tmp_path / name))
    assert not kubeconfig_exists(str(tmp_path / "none"))
    assert read_kubeconfig(str(tmp_path / "none")) is None
