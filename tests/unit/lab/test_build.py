# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the lab's builder, as far as they need no compiler and no registry."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import re
import tarfile
import threading
import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils import _contents
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import File, Image, Program, Recipe, Rootfs
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

TOOL = Program("tool", "v1", "example.com/tool")
ROOTFS = Rootfs("base", ("bash",), customize="base.sh")
IMAGE = Image("registry.example.com/tool:v1", (File("/tool", "program:tool-v1/tool", 0o755), File("/x", "role:x")), rootfs="base")


@pytest.fixture
def role_files(tmp_path: Path) -> Path:
    files = tmp_path / "role"
    (files / "programs/tool-v1").mkdir(parents=True)
    (files / "programs/tool-v1/go.mod").write_text("module lab\n")
    (files / "base.sh").write_text("true\n")
    (files / "x").write_text("x\n")
    return files


def builder(role_files: Path, program: Program = TOOL, rootfs: Rootfs = ROOTFS, image: Image = IMAGE) -> Builder:
    parts = Recipe((program,), (rootfs,), (), (image,), (), dataclasses.replace(image, ref="host"), (), {})
    return Builder(parts, role_files.parent / "cache", role_files, print)


class TestKeys:
    @pytest.mark.parametrize("changed", ["programs/tool-v1/go.mod", "base.sh", "x"])
    def test_change_with_every_file_of_the_role(self, role_files, changed):
        before = builder(role_files).image_key(IMAGE)
        (role_files / changed).write_text("other\n")
        assert builder(role_files).image_key(IMAGE) != before

    @pytest.mark.parametrize(
        "parts",
        [
            {"program": dataclasses.replace(TOOL, defines=(("a", "b"),))},
            {"program": dataclasses.replace(TOOL, tags=("small",))},
            {"rootfs": dataclasses.replace(ROOTFS, suite="bookworm")},
            {"rootfs": dataclasses.replace(ROOTFS, packages=("dash",))},
            {"image": dataclasses.replace(IMAGE, user="1")},
        ],
        ids=lambda parts: next(iter(parts)),
    )
    def test_change_with_every_part_of_the_recipe(self, role_files, parts):
        assert builder(role_files, **parts).image_key(parts.get("image", IMAGE)) != builder(role_files).image_key(IMAGE)

    def test_stay_otherwise(self, role_files):
        assert builder(role_files).image_key(IMAGE) == builder(role_files).image_key(IMAGE)


class TestBuild:
    def test_all_is_missing_from_an_empty_cache(self, role_files):
        assert builder(role_files).missing() == ["program tool-v1", "root filesystem base", "image registry.example.com/tool:v1"]

    def test_a_failing_step_is_named_and_leaves_nothing(self, role_files):
        work = builder(role_files, Program("tool", "v1", c_source="role:x"))
        work.workshop.run = lambda *_args, **_options: (nothing for nothing in ()).throw(TenancyError("no compiler"))
        said: list[str] = []
        work.workshop.say = said.append
        with pytest.raises(TenancyError, match="no compiler"):
            work.build()
        assert {re.sub(r"\d+:\d\d", "M:SS", line) for line in said} <= {
            "building 1 of 3, program tool-v1 (M:SS so far)",
            # Beside it.
            "building 2 of 3, root filesystem base (M:SS so far)",
        }
        assert [path.name for path in work.cache.rglob("*") if path.is_file()] == ["lock"]
        assert len(work.missing()) == 3

    def test_a_root_filesystem_is_made_beside_programs_and_images_after_both(self, role_files):
        work = builder(role_files)
        done: list[str] = []
        both = threading.Barrier(2, timeout=60)
        work.workshop.say = lambda _line: None

        def make(name: str, wait: bool = False) -> None:
            if wait:
                both.wait()
            done.append(f"{name} in {work.workshop.step}")

        work._build_program = lambda _program: make("program", wait=True)
        work._build_rootfs = lambda _rootfs: make("root filesystem", wait=True)
        work._store_image = lambda _image: make("image")
        work.server.serving = lambda **_needed: contextlib.nullcontext()
        work.build()
        assert sorted(done[:2]) == ["program in 1 of 3, program tool-v1", "root filesystem in 2 of 3, root filesystem base"]
        assert done[2:] == ["image in 3 of 3, image registry.example.com/tool:v1"]

    def test_a_failure_ends_what_runs_beside_it(self, role_files):
        work = builder(role_files)
        work.workshop.say = lambda _line: None
        started = threading.Event()

        def slow(_rootfs: Rootfs) -> None:
            started.set()
            work.workshop.run(["sleep", "600"])

        def fail(_program: Program) -> None:
            assert started.wait(60)
            raise TenancyError("no compiler")

        work._build_program, work._build_rootfs = fail, slow
        work.server.serving = lambda **_needed: contextlib.nullcontext()
        work._store_image = lambda _image: pytest.fail("it went on")
        before = time.monotonic()
        with pytest.raises(TenancyError, match="no compiler"):
            work.build()
        assert time.monotonic() - before < 300
        # Another build of this process begins anew.
        work.workshop.side_by_side([("again", started.clear)])
        assert not started.is_set()

    def test_what_is_half_made_does_not_count(self, role_files):
        work = builder(role_files)

        def killed() -> None:
            with work.workshop.atomic(work.program_dir(TOOL)) as out:
                out.mkdir()
                (out / "tool").write_text("half")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            killed()
        assert not work.program_dir(TOOL).exists()

    def test_a_program_that_is_not_installed_is_named(self, role_files):
        work = builder(role_files)
        work.cache.mkdir()
        with pytest.raises(TenancyError, match=r"needs the program not-there-at-all, which is not installed\."):
            work.workshop.run(["not-there-at-all"])

    def test_a_programs_last_words_are_told(self, role_files):
        work = builder(role_files)
        work.cache.mkdir()
        with pytest.raises(TenancyError, match=r"ended with code 3\. Its last output: no such thing") as failure:
            work.workshop.run(["sh", "-c", "echo no such thing >&2; exit 3"])
        assert failure.value.details == {"rc": 3}


class TestFiles:
    def tar(self, role_files: Path, *files: File) -> dict[str, tarfile.TarInfo]:
        self.content = io.BytesIO()
        with tarfile.open(fileobj=self.content, mode="w") as tar:
            builder(role_files).contents.add_files(tar, Image("some", files))
        self.content.seek(0)
        with tarfile.open(fileobj=self.content) as tar:
            return {member.name: member for member in tar}

    def test_text_link_file_and_folder(self, role_files):
        (role_files / "folder/inner").mkdir(parents=True)
        (role_files / "folder/inner/file").write_text("deep")
        (role_files / "y").write_text("more")
        members = self.tar(
            role_files,
            File("/text", "text:hello", 0o600),
            File("/link", "link:text"),
            File("/tool", "role:x", 0o755),
            File("/etc", "role:folder"),
            File("/both", "roles:x y"),
        )
        assert {name: (member.mode, member.size, member.linkname) for name, member in members.items()} == {
            "text": (0o600, 5, ""),
            "link": (0o644, 0, "text"),
            "tool": (0o755, 2, ""),
            "etc/inner/file": (0o644, 4, ""),
            "both": (0o644, 6, ""),
        }

    def test_a_whole_file_system_holds_each_path_once(self, role_files):
        work = builder(role_files, image=Image("i", (File("/etc/name", "text:ours"),), rootfs="base"))
        base = work.rootfs_tar(ROOTFS)
        base.parent.mkdir(parents=True)
        with tarfile.open(base, "w") as tar:
            for name in ("./etc/name", "./etc/other"):
                _contents.add_bytes(tar, name, b"of Debian", 0o644)
        out = io.BytesIO()
        work.write_image_tar(work.recipe.host, out)
        with tarfile.open(fileobj=io.BytesIO(out.getvalue())) as tar:
            found = {member.name: tar.extractfile(member).read() for member in tar}
        assert found == {"./etc/other": b"of Debian", "etc/name": b"ours"}


def test_oci_layout_is_whole(tmp_path):
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"a layer")
    image = Image("some", (), entrypoint=("/run", "it"), user="1:1", stop_signal="SIGTERM")
    _contents.write_oci_layout(tmp_path / "layout", image, [layer])

    def blob(descriptor: dict) -> bytes:
        content = (tmp_path / "layout/blobs/sha256" / descriptor["digest"].removeprefix("sha256:")).read_bytes()
        assert descriptor["size"] == len(content)
        assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        return content

    index = json.loads((tmp_path / "layout/index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    assert [blob(descriptor) for descriptor in manifest["layers"]] == [b"a layer"]
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert len(config["history"]) == 1
    run = config["config"]
    assert (run["Entrypoint"], run["User"], run["StopSignal"]) == (["/run", "it"], "1:1", "SIGTERM")


def test_storage_manifest_is_as_kind_wants_it():
    pod = {"spec": {"containers": [{"name": "helper", "image": "busybox"}]}}
    upstream = [
        {"kind": "StorageClass", "metadata": {"name": "local-path"}},
        {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"image": "provisioner:v1"}]}}}},
        {"kind": "ConfigMap", "data": {"config.json": "{}", "helperPod.yaml": yaml.safe_dump(pod)}},
        {"kind": "Namespace"},
        None,
    ]
    storage, deployment, config, namespace = yaml.safe_load_all(_contents.storage_manifest(yaml.safe_dump_all(upstream)))
    assert storage["metadata"] == {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    }
    spec = deployment["spec"]["template"]["spec"]
    assert spec["containers"] == [{"image": "provisioner:v1"}]
    assert [toleration["key"] for toleration in spec["tolerations"]] == ["node-role.kubernetes.io/control-plane"]
    helper = yaml.safe_load(config["data"]["helperPod.yaml"])
    assert helper["spec"]["containers"] == [{"name": "helper", "image": "docker.io/library/busybox:1.37.0"}]
    assert namespace == {"kind": "Namespace"}
