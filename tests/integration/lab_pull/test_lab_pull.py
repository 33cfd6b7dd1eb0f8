# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lab_images: pull, for real but small: Debian's docker-registry and a web server on loopback stand for upstream."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import http.client
import http.server
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._pull import Puller, choose
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Chart, Download, File, Image, Program, Recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

REFS = ("docker.io/kindest/node:v1", "ghcr.io/loft-sh/vcluster-oss:1")
CHARTS = (
    Chart("kai-scheduler", "v1", "v1", "", "oci://ghcr.io/kai/kai-scheduler"),
    Chart("vcluster", "1", "1", "", "https://charts.example.com"),
)
# Leaves what it was asked for, in place of a chart.
HELM = '#!/bin/sh\nasked="$*"\nwhile [ "$1" != --destination ]; do shift; done\necho "$asked" >"$2/chart.tgz"\n'
DEAD = "http://127.0.0.1:9"


def program(name: str) -> Program:
    return Program(name, "v1", c_source="role:tiny/tiny.c")


def recipe() -> Recipe:
    programs = tuple(program(name) for name in ("kind", "helm", "toolkit", "driver"))
    images = tuple(Image(ref, (File("/hello", f"text:{ref}"),)) for ref in REFS)
    return Recipe(
        programs=programs,
        rootfs=(),
        node_images=(Image("registry.k8s.io/etcd:1", (File("/etcd", "text:of a built node"),)),),
        images=images,
        charts=CHARTS,
        host=Image("host", tuple(File(f"/{item.name}", f"program:{item.id}/{item.name}", 0o755) for item in programs)),
        downloads=(
            Download(
                "kind-v1", "https://kind.example.com/kind-linux", "https://kind.example.com/kind-linux.sha256sum", ("kind",)
            ),
            Download("helm-v1", "https://helm.example.com/h.tar.gz", "https://helm.example.com/h.tar.gz.sha256", ("linux/helm",)),
            Download("toolkit-v1", "https://deb.example.com/t_1.deb", "https://deb.example.com/Packages", ("usr/bin/toolkit",)),
        ),
        component_tags={"etcd": "1"},
    )


class Upstream:
    """A mirror with everything the recipe names."""

    def __init__(self, root: Path) -> None:
        self.files = root / "files"
        self.registry = Builder(dataclasses.replace(recipe(), programs=(), charts=(), node_images=()), root, root, print)
        self.registry.build()
        self.address = ""
        kind = self.put("kind.example.com/kind-linux", b"kind of upstream")
        self.put("kind.example.com/kind-linux.sha256sum", f"{kind}  kind-linux\n".encode())
        tree = root / "helm/linux"
        tree.mkdir(parents=True)
        (tree / "helm").write_text(HELM)
        with tarfile.open(root / "h.tar.gz", "w:gz") as tar:
            tar.add(tree, "linux")
        self.put(
            "helm.example.com/h.tar.gz.sha256", self.put("helm.example.com/h.tar.gz", (root / "h.tar.gz").read_bytes()).encode()
        )
        package = root / "package"
        for path, text in (
            ("usr/bin/toolkit", "toolkit of upstream"),
            ("DEBIAN/control", "Package: t\nVersion: 1\nArchitecture: amd64\nMaintainer: nobody\nDescription: none\n"),
        ):
            (package / path).parent.mkdir(parents=True)
            (package / path).write_text(text)
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", package, root / "t.deb"], check=True, capture_output=True)
        digest = self.put("deb.example.com/t_1.deb", (root / "t.deb").read_bytes())
        other = f"Package: t\nFilename: ./t_0.deb\nSHA256: {'0' * 64}\n"
        self.put("deb.example.com/Packages", f"{other}\nPackage: t\nFilename: ./t_1.deb\nSHA256: {digest}\n".encode())

    def put(self, path: str, content: bytes) -> str:
        (self.files / path).parent.mkdir(parents=True, exist_ok=True)
        (self.files / path).write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """One address for registry and files, as mirrors have it."""
        upstream = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: object) -> None:
                super().__init__(*args, directory=str(upstream.files))

            def do_GET(self) -> None:
                if self.path.startswith("/v2/"):
                    self.ask_registry()
                else:
                    super().do_GET()

            def ask_registry(self) -> None:
                registry = http.client.HTTPConnection(upstream.registry.server.address)
                registry.request(self.command, self.path, headers={"Accept": ", ".join(self.headers.get_all("Accept", ["*/*"]))})
                answer = registry.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.read())

            def log_message(self, *args: object) -> None:
                pass

        with self.registry.server.serving(), http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.address = f"http://127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield
            finally:
                server.shutdown()


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    upstream = Upstream(tmp_path / "upstream")
    with upstream.serving():
        yield upstream


@pytest.fixture
def role_files(tmp_path: Path) -> Path:
    (tmp_path / "role/tiny").mkdir(parents=True)
    (tmp_path / "role/tiny/tiny.c").write_text("int main(void) { return 0; }\n")
    return tmp_path / "role"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def digests(builder: Builder) -> list[str]:
    with builder.server.serving():
        inspect = ["skopeo", "inspect", "--tls-verify=false", "--format={{.Digest}}"]
        refs = [f"docker://{builder.server.address}/{ref}" for ref in REFS]
        return [subprocess.run([*inspect, ref], check=True, capture_output=True, text=True).stdout for ref in refs]


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_everything_comes_from_upstream_but_the_driver(upstream, cache, role_files):
    puller = Puller(recipe(), cache, role_files, print, upstream.address)
    steps = ["program kind-v1", "program helm-v1", "program toolkit-v1", "program driver-v1"]
    steps += ["chart kai-scheduler-v1", "chart vcluster-1", *(f"image {ref}" for ref in REFS)]
    assert puller.missing() == steps
    puller.build()
    assert (puller.missing(), puller.recipe.component_tags) == ([], {})

    made = {item.name: puller.program_dir(item) / item.name for item in recipe().programs}
    assert made["kind"].read_text() == "kind of upstream"
    assert made["toolkit"].read_text() == "toolkit of upstream"
    assert subprocess.run([made["driver"]], check=False).returncode == 0
    assert all(os.access(path, os.X_OK) for path in made.values())
    server = upstream.address.removeprefix("http://")
    asked = [puller.chart_file(chart).read_text().partition(" --destination")[0] for chart in CHARTS]
    assert asked == [
        f"pull --version v1 oci://{server}/ghcr.io/kai/kai-scheduler --plain-http",
        f"pull --version 1 vcluster --repo {upstream.address}/charts.example.com",
    ]
    assert digests(puller) == digests(upstream.registry)
    assert everything(cache / "tmp") == set()


def test_other_content_than_published_is_refused(upstream, cache, role_files):
    upstream.put("kind.example.com/kind-linux", b"something else")
    puller = Puller(recipe(), cache, role_files, print, upstream.address)
    with pytest.raises(TenancyError, match=r"kind.example.com/kind-linux has the SHA-256 .* says [0-9a-f]{64}"):
        puller.build()
    assert everything(cache) == {"lock"}


def test_no_answer_is_explained_and_the_next_run_goes_on(upstream, cache, role_files):
    lacking = dataclasses.replace(recipe(), images=(*recipe().images, Image("ghcr.io/none/such:1", ())))
    with pytest.raises(TenancyError) as refusal:
        Puller(lacking, cache, role_files, print, upstream.address).build()
    server = upstream.address.removeprefix("http://")
    for words in (
        f"ghcr.io/none/such:1 cannot be pulled from {server}.",
        "manifest unknown",
        "lab_images: build needs no registry",
    ):
        assert words in refusal.value.message
    assert Puller(lacking, cache, role_files, print, DEAD).missing() == ["image ghcr.io/none/such:1"]
    with pytest.raises(TenancyError, match=r"cannot be pulled from 127\.0\.0\.1:9\..*connection refused"):
        Puller(lacking, cache, role_files, print, DEAD).build()


def test_auto_pulls_what_answers_and_keeps_what_is_there(upstream, cache, role_files):
    said: list[str] = []

    def auto(mirror: str, parts: Recipe) -> Builder:
        return choose("auto", mirror, parts, cache, role_files, said.append)

    parts = dataclasses.replace(recipe(), charts=())
    assert isinstance(auto(upstream.address, parts), Puller)
    assert said == []
    assert not isinstance(auto(DEAD, parts), Puller)
    assert said == ["no answer from 127.0.0.1:9, so the lab's images are built here"]

    auto(upstream.address, parts).build()
    assert auto(DEAD, parts).missing() == []
    assert isinstance(auto(DEAD, parts), Puller)

    choose("build", "", parts, cache, role_files, print).build()
    assert not isinstance(auto(upstream.address, parts), Puller)
    assert auto(DEAD, parts).missing() == []
