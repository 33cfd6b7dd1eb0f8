# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what is fetched from where; tests/integration/lab_pull fetches."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.kubegpu.lab.plugins.plugin_utils import _pull
from ansible_collections.kubegpu.lab.plugins.plugin_utils._pull import Puller, choose, published_digest
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import (
    ENFORCING,
    Chart,
    Download,
    Image,
    Program,
    Recipe,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

A, B = "a" * 64, "b" * 64
PACKAGES = f"Package: t\nFilename: ./t_1.deb\nSHA256: {A}\n\nPackage: t\nFilename: ./pool/t_2.deb\nSHA256: {B}\nSHA512: {A}{B}\n"
RECIPE = Recipe(
    programs=(Program("tool", "v1"),),
    rootfs=(),
    node_images=(Image("registry.k8s.io/pause:3.10", ()),),
    images=(Image("docker.io/kindest/node:v1", ()), Image("ghcr.io/a/b:1", ())),
    charts=(Chart("kai", "v1", "v1", "", "oci://ghcr.io/a/kai"), Chart("c", "1", "1", "", "https://charts.example.com/c")),
    host=Image("host", ()),
    downloads=(Download("tool-v1", "https://dl.example.com/tool", "https://dl.example.com/tool.sha256", ("tool",)),),
    component_tags={},
)


def puller(tmp_path: Path, mirror: str = "") -> Puller:
    return Puller(RECIPE, tmp_path, tmp_path, print, mirror)


@pytest.mark.parametrize(
    ("text", "name", "digest"),
    [
        (A, "kubectl", A),
        (f"{A}  kind-linux-amd64\n", "kind-linux-amd64", A),
        (f"{A}  other\n{B} *kind\n", "kind", B),
        (f"{A}  other\n", "kind", ""),
        ("<html>not found</html>", "kind", ""),
        (PACKAGES, "t_1.deb", A),
        (PACKAGES, "t_2.deb", B),
        (PACKAGES, "t_3.deb", ""),
    ],
)
def test_published_digest(text, name, digest):
    assert published_digest(text, name) == digest


@pytest.mark.parametrize(
    ("mirror", "asked"),
    [
        (
            "",
            ["https://charts.example.com/v2/", "https://dl.example.com/v2/", "https://ghcr.io/v2/"]
            + ["https://registry-1.docker.io/v2/"],
        ),
        ("http://mirror:5000/", ["http://mirror:5000/v2/"]),
    ],
)
def test_each_server_is_asked_once(monkeypatch, tmp_path, mirror, asked):
    addresses: list[str] = []
    monkeypatch.setattr(_pull, "answers", lambda address, _timeout: addresses.append(address) or "dl." not in address)
    assert puller(tmp_path, mirror).silent() == ([] if mirror else ["dl.example.com"])
    assert sorted(addresses) == asked


def test_mirror_holds_copies_under_their_addresses(tmp_path):
    work = puller(tmp_path, "https://mirror.example.com")
    assert work._at("ghcr.io/a/b:1") == "mirror.example.com/ghcr.io/a/b:1"
    assert work._at("https://dl.example.com/tool") == "mirror.example.com/dl.example.com/tool"
    with pytest.raises(TenancyError, match="has to start with"):
        puller(tmp_path, "mirror.example.com")


def test_a_network_that_enforces_policies_is_upstreams_own(monkeypatch, tmp_path):
    work, asked = puller(tmp_path), []
    monkeypatch.setattr(work.server, "copy", lambda source, image, *_options: asked.append((source, image.ref)))
    ref = f"docker.io/kindest/node:v1{ENFORCING}"
    work._push_image(Image(ref, ()))
    assert asked == [("docker://docker.io/kindest/node:v1", ref)]


def test_forced_sources_ask_nobody(monkeypatch, tmp_path):
    monkeypatch.setattr(_pull, "answers", lambda *_args: pytest.fail("asked"))
    assert isinstance(choose("pull", "", RECIPE, tmp_path, tmp_path, print), Puller)
    assert not isinstance(choose("build", "", RECIPE, tmp_path, tmp_path, print), Puller)


def test_auto_pulls_a_version_without_pinned_modules(monkeypatch, tmp_path):
    monkeypatch.setattr(_pull, "answers", lambda *_args: True)
    assert isinstance(choose("auto", "", RECIPE, tmp_path, tmp_path, print), Puller)
