# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the lab's recipe: that its parts fit together, and that the role holds what they name."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import ENFORCING, FRAMEWORKS, REWRITE_HOSTS, Recipe, recipe
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import LAB, ROLE, VERSIONS

RECIPE = recipe(VERSIONS, LAB)
ENFORCING_RECIPE = recipe(VERSIONS, LAB | {"network_policies": True})
REHEARSING_RECIPE = recipe(VERSIONS | {"kwok": "v0.8.0"}, LAB)
VOLCANO_RECIPE = recipe(VERSIONS | {"volcano": "v1.10.0", "frameworks": list(FRAMEWORKS)}, LAB)
RECIPES = [RECIPE, ENFORCING_RECIPE, REHEARSING_RECIPE, VOLCANO_RECIPE]
IMAGES = tuple(dict.fromkeys(image for parts in RECIPES for image in (*parts.node_images, *parts.images, parts.host)))


def sources(parts: Recipe) -> Iterator[str]:
    for image in (*parts.node_images, *parts.images, parts.host):
        yield from (file.source for file in image.files)
    yield from (chart.source for chart in parts.charts)
    yield from (program.c_source for program in parts.programs if program.c_source)


@pytest.mark.parametrize("parts", RECIPES)
def test_every_source_names_a_known_program_or_a_file_of_the_role(parts):
    known = {program.id for program in parts.programs}
    for source in sources(parts):
        scheme, _colon, rest = source.partition(":")
        if scheme in ("program", "module", "storage"):
            assert rest.partition("/")[0] in known
        elif scheme in ("role", "roles"):
            assert all((ROLE / "files" / path).is_file() for path in rest.split())
        else:
            assert scheme in ("text", "link")


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.ref)
def test_image_has_content_and_a_known_root_filesystem(image):
    assert image.files or image.rootfs
    assert image.rootfs in {"", *(rootfs.name for rootfs in VOLCANO_RECIPE.rootfs)}
    paths = [file.path for file in image.files]
    assert len(paths) == len(set(paths))
    # Links into /usr in Debian; a layer with a file below them would make them folders, and hide all programs.
    assert not [path for path in paths if image.rootfs and path.startswith(("/bin/", "/sbin/", "/lib/"))]


@pytest.mark.parametrize(
    "names",
    [
        [image.ref for image in IMAGES],
        [program.id for program in RECIPE.programs],
        [(chart.name, chart.version) for chart in RECIPE.charts],
    ],
)
def test_names_are_unique(names):
    assert len(names) == len(set(names))


def test_upstream_publishes_each_program_of_the_host_but_the_driver():
    downloaded = {
        f"program:{download.program}/{Path(member).name}" for download in RECIPE.downloads for member in download.members
    }
    on_host = {file.source for file in RECIPE.host.files if file.source.startswith("program:")}
    driver = {f"program:{program.id}/{program.name}" for program in RECIPE.programs if program.c_source.startswith("role:")}
    assert downloaded == on_host - driver
    assert all(address.startswith("https://") for download in RECIPE.downloads for address in (download.url, download.checksums))


def test_what_is_pulled_is_upstreams():
    assert not [image.ref for image in RECIPE.images if "kubegpu" in image.ref]
    assert f"docker.io/kindest/node:{VERSIONS['kubernetes']}" in [image.ref for image in RECIPE.images]


def test_the_container_that_vcluster_adds_to_stateful_sets_writes_the_full_name(tmp_path):
    (image,) = [image for image in RECIPE.images if image.ref == REWRITE_HOSTS]
    (shell,) = image.files
    assert shell.path == "/usr/local/bin/sh"
    # Debian's sed takes \d for the letter; that of upstream's image for a digit, as vCluster's command has it.
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1\tlocalhost\n10.244.1.7\tstore-0\n")
    full = "store-0.store.default.svc.cluster.local"
    command = rf"sed -E -e 's/^(\d+.\d+.\d+.\d+\s+)store-0$/\1 {full} store-0/' {hosts}"
    script = ROLE / "files" / shell.source.removeprefix("role:")
    done = subprocess.run(["sh", script, "-c", command], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == f"127.0.0.1\tlocalhost\n10.244.1.7\t {full} store-0\n"
    plain = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, timeout=30)
    assert plain.stdout == hosts.read_text()


def test_component_tags_are_those_of_the_images():
    refs = {image.ref for image in RECIPE.node_images}
    assert f"registry.k8s.io/coredns/coredns:{RECIPE.component_tags['coredns']}" in refs
    assert f"registry.k8s.io/etcd:{RECIPE.component_tags['etcd']}" in refs


def test_every_default_version_can_be_built():
    builder = Builder(RECIPE, Path("/nonexistent"), ROLE / "files", print)
    assert len(builder.missing()) == sum(
        map(len, (RECIPE.programs, RECIPE.rootfs, RECIPE.charts, RECIPE.node_images, RECIPE.images))
    )


@pytest.mark.parametrize("version", ["v3.19.5", "v4.3.1"])
def test_the_host_has_the_helm_that_was_asked_for(version):
    parts = recipe(VERSIONS | {"helm": version}, LAB)
    (helm,) = [program for program in parts.programs if program.name == "helm"]
    assert (helm.id, helm.module) == (f"helm-{version}", f"helm.sh/helm/{version[:2]}")
    assert [file.source for file in parts.host.files if file.path == "/usr/local/bin/helm"] == [f"program:helm-{version}/helm"]
    pins = ROLE / "files/programs" / helm.id
    assert f"tool {helm.module}/cmd/helm\n" in (pins / "go.mod").read_text()
    assert f"{helm.module} {version} h1:" in (pins / "go.sum").read_text()


def test_a_version_that_cannot_be_built_is_refused_with_those_that_can():
    builder = Builder(recipe(VERSIONS | {"kai": ["v0.14.0"]}, LAB), Path("/nonexistent"), ROLE / "files", print)
    with pytest.raises(TenancyError, match=r"cannot build kai-scheduler v0\.14\.0: .* v0\.12\.0, v0\.13\.1\."):
        builder.missing()


def test_a_cluster_that_enforces_network_policies_has_a_node_image_of_its_own():
    def images(parts: Recipe) -> dict[str, str]:
        builder = Builder(parts, Path("/nonexistent"), ROLE / "files", print)
        return {image.ref: builder.image_key(image) for image in (*parts.node_images, *parts.images)}

    plain, enforcing = images(RECIPE), images(ENFORCING_RECIPE)
    node = f"docker.io/kindest/node:{VERSIONS['kubernetes']}"
    engines = {ref for ref in enforcing if ref.startswith("registry.k8s.io/networking/")}
    assert enforcing.items() - plain.items() == {(ref, enforcing[ref]) for ref in {node + ENFORCING} | engines}
    assert plain.keys() - enforcing.keys() == {node}
    manifests = (ROLE / "files/node/network-policies.yaml").read_text()
    assert all(f"image: &image {ref}\n" in manifests for ref in engines)


def test_labs_differ_in_their_driver_and_host_only():
    def keys(lab: str) -> dict[str, str]:
        parts = recipe(VERSIONS, LAB | {"name": lab})
        builder = Builder(parts, Path("/nonexistent"), ROLE / "files", print)
        programs = {program.name: builder.program_dir(program).name for program in parts.programs}
        return programs | {image.ref: builder.image_key(image) for image in (*parts.node_images, *parts.images)}

    ours, theirs = keys("one"), keys("other")
    assert {name for name in ours if ours[name] != theirs[name]} == {"libnvidia-ml.so", "nvidia-smi"}


def test_the_host_can_be_of_an_older_release_of_debian():
    suites = {
        rootfs.name: (rootfs.suite, rootfs.packages) for rootfs in recipe(VERSIONS, LAB | {"host_release": "bookworm"}).rootfs
    }
    now = {rootfs.name: (rootfs.suite, rootfs.packages) for rootfs in RECIPE.rootfs}
    assert suites["host"][0] == "bookworm"
    # Its docker.io brings the client, too.
    assert set(now["host"][1]) - set(suites["host"][1]) == {"docker-cli"}
    assert {name: parts for name, parts in suites.items() if name != "host"} == {
        name: parts for name, parts in now.items() if name != "host"
    }
    with pytest.raises(TenancyError, match="lab_host_release: sid is none of bookworm, trixie"):
        recipe(VERSIONS, LAB | {"host_release": "sid"})


def test_a_framework_that_is_not_known_is_refused_by_name():
    with pytest.raises(TenancyError, match="lab_frameworks: slurm is none of jobset, lws, kueue, kuberay, trainer, prometheus,"):
        recipe(VERSIONS | {"frameworks": ["slurm"]}, LAB)


def test_a_framework_may_have_several_images_and_another_tag_than_its_module():
    parts = recipe(VERSIONS | {"frameworks": ["prometheus", "prometheus-operator", "kube-state-metrics"]}, LAB)
    images = {image.ref: image.entrypoint for image in parts.images if image not in RECIPE.images}
    assert images == {
        "quay.io/prometheus/prometheus:v3.16.0": ("/usr/bin/prometheus",),
        "quay.io/prometheus-operator/prometheus-operator:v0.93.1": ("/manager",),
        "quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1": ("/usr/bin/prometheus-config-reloader",),
        "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.18.0": ("/manager",),
    }
    tags = {program.name: program.tags for program in parts.programs if program.tags}
    assert tags == {"prometheus": ("remove_all_sd", "enable_kubernetes_sd")}
