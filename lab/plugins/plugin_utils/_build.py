# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Turns the lab's recipe into files in the user's cache.

The cache holds C(programs/), C(rootfs/), C(charts/) and C(registry/) (storage of Debian's docker-registry, which
every lab serves read-only). Each artifact is made beside its place and renamed into it, under a name that holds a
digest of all it was made from: a build that was killed leaves nothing that counts, a second lab builds nothing.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import tarfile
import typing as t
from pathlib import Path

from ._compiler import Compiler
from ._contents import Contents, write_oci_layout
from ._recipe import Chart, Image, Program, Recipe, Rootfs
from ._registry import Registry
from ._workshop import Workshop

# Made beside the other programs, in this order: Debian's packages, which wait for the network; kine, whose SQLite is one C file; and vCluster, which
# shares few packages with others. One of two processors would idle while a program's modules are fetched, and while it is linked.
BESIDE = ("root filesystem ", "program kine-", "program vcluster-")
# They are made of programs and root filesystems.
LAST = ("chart ", "image ")


class Builder:
    """Builds what the recipe names and the cache lacks.

    :arg cache: the cache's folder, shared by all labs of this user.
    :arg role_files: the role's C(files/).
    :arg say: prints one line of progress.
    :arg home: where charts and registry are; the cache's own folder by default.
    """

    _doing = "building"

    def __init__(
        self, recipe: Recipe, cache: Path, role_files: Path, say: t.Callable[[str], None], home: Path | None = None
    ) -> None:
        self.recipe = recipe
        self.cache = cache
        self.charts = (home or cache) / "charts"
        self.registry = (home or cache) / "registry"
        self.role_files = role_files
        self.workshop = Workshop(cache, say, self._doing)
        self.compiler = Compiler(self.workshop, role_files)
        self.contents = Contents(role_files, self._path)
        self.server = Registry(self.workshop, self.registry)
        self._programs = {program.id: program for program in recipe.programs}
        self._rootfs = {rootfs.name: rootfs for rootfs in recipe.rootfs}

    # The whole

    def missing(self) -> list[str]:
        """What a build would make, by name."""
        return [name for name, done, _make in self._steps() if not done()]

    def build(self) -> None:
        """Make everything that is missing; raises TenancyError naming the step that failed."""
        self.cache.mkdir(parents=True, exist_ok=True)
        with open(self.cache / "lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.workshop.say("another lab is building into this cache, waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            # What a killed build left.
            self.workshop.clear()
            missing = [(name, make) for name, done, make in self._steps() if not done()]
            steps = [(f"{number} of {len(missing)}, {name}", make) for number, (name, make) in enumerate(missing, 1)]
            beside, last = (
                [step for kind in kinds for step, (name, _make) in zip(steps, missing, strict=True) if name.startswith(kind)]
                for kinds in (BESIDE, LAST)
            )
            with self.server.serving(needed=any(name.startswith("image ") for name, _make in missing)):
                self.workshop.side_by_side([step for step in steps if step not in (*beside, *last)], beside)
                self.workshop.side_by_side(last[::2], last[1::2])
            self.workshop.clear()

    def _steps(self) -> t.Iterator[tuple[str, t.Callable[[], bool], t.Callable[[], None]]]:
        for program in self.recipe.programs:
            yield (
                f"program {program.id}",
                lambda program=program: self.program_dir(program).is_dir(),  # type: ignore[misc]
                lambda program=program: self._build_program(program),  # type: ignore[misc]
            )
        for rootfs in self.recipe.rootfs:
            yield (
                f"root filesystem {rootfs.name}",
                lambda rootfs=rootfs: self.rootfs_tar(rootfs).is_file(),  # type: ignore[misc]
                lambda rootfs=rootfs: self._build_rootfs(rootfs),  # type: ignore[misc]
            )
        for chart in self.recipe.charts:
            yield (
                f"chart {chart.name}-{chart.version}",
                lambda chart=chart: self.chart_file(chart).is_file(),  # type: ignore[misc]
                lambda chart=chart: self._build_chart(chart),  # type: ignore[misc]
            )
        for image in (*self.recipe.node_images, *self.recipe.images):
            yield (
                f"image {image.ref}",
                lambda image=image: self._image_current(image),  # type: ignore[misc]
                lambda image=image: self._store_image(image),  # type: ignore[misc]
            )

    # Programs

    def program_dir(self, program: Program) -> Path:
        return self.cache / "programs" / f"{program.id}-{self.compiler.key(program)}"

    def _build_program(self, program: Program) -> None:
        with self.workshop.atomic(self.program_dir(program)) as out:
            out.mkdir()
            if program.c_source:
                self.compiler.compile_c(program, self._path(program.c_source), out)
            else:
                self.compiler.compile_go(program, out)

    # Root filesystems

    def rootfs_tar(self, rootfs: Rootfs) -> Path:
        fields = dataclasses.asdict(rootfs)
        digest = hashlib.sha256(json.dumps([fields.pop("suite"), fields], sort_keys=True).encode())
        if rootfs.customize:
            digest.update((self.role_files / rootfs.customize).read_bytes())
        return self.cache / "rootfs" / f"{rootfs.name}-{digest.hexdigest()[:12]}.tar"

    def _build_rootfs(self, rootfs: Rootfs) -> None:
        command = ["mmdebstrap", f"--variant={rootfs.variant}", f"--include={','.join(rootfs.packages)}", "--format=tar"]
        command += ["--mode=root" if os.geteuid() == 0 else "--mode=unshare"]
        command += ["--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*"]
        command += ["--dpkgopt=path-exclude=/usr/share/locale/*"]
        if rootfs.customize:
            hook = "extract" if rootfs.variant == "extract" else "customize"
            command.append(f'--{hook}-hook=sh {self.role_files / rootfs.customize} "$1"')
        with self.workshop.atomic(self.rootfs_tar(rootfs)) as out:
            self.workshop.run([*command, rootfs.suite, str(out)])

    # Charts

    def chart_file(self, chart: Chart) -> Path:
        return self.charts / f"{chart.name}-{chart.version}.tgz"

    def _build_chart(self, chart: Chart) -> None:
        self._helm_makes(
            chart, ["package", str(self._path(chart.source)), "--version", chart.version, "--app-version", chart.app_version]
        )

    def _helm_makes(self, chart: Chart, command: list[str]) -> None:
        """Run a command of Helm that leaves a chart's archive in a folder, without a trace in the user's own Helm."""
        helm = self.program_dir(next(program for program in self.recipe.programs if program.name == "helm")) / "helm"
        with self.workshop.scratch("chart") as scratch:
            (scratch / "out").mkdir()
            homes = {f"HELM_{home}_HOME": str(scratch / home) for home in ("CACHE", "CONFIG", "DATA")}
            self.workshop.run([str(helm), *command, "--destination", str(scratch / "out")], env=os.environ | homes)
            self.charts.mkdir(parents=True, exist_ok=True)
            os.replace(next((scratch / "out").iterdir()), self.chart_file(chart))

    # Images

    def image_key(self, image: Image) -> str:
        """A digest of everything the image is made from."""
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(image), sort_keys=True).encode())
        if image.rootfs:
            digest.update(self.rootfs_tar(self._rootfs[image.rootfs]).name.encode())
        for file in image.files:
            scheme, _colon, rest = file.source.partition(":")
            if scheme == "program":
                digest.update(self.program_dir(self._programs[rest.partition("/")[0]]).name.encode())
            elif scheme == "role":
                digest.update((self.role_files / rest).read_bytes())
            elif scheme == "roles":
                digest.update(self.contents.joined(rest))
        return digest.hexdigest()[:12]

    def _image_stamp(self, image: Image) -> Path:
        return self.registry / "stamps" / image.ref.replace("/", "+")

    def _image_current(self, image: Image) -> bool:
        stamp = self._image_stamp(image)
        return stamp.is_file() and stamp.read_text("utf-8") == self.image_key(image)

    def write_image_tar(self, image: Image, out: t.BinaryIO) -> None:
        """The image's whole file system as one tar, as C(docker import) takes it."""
        self.contents.write_tar(image, self.rootfs_tar(self._rootfs[image.rootfs]), out)

    def _store_image(self, image: Image) -> None:
        self._push_image(image)
        stamp = self._image_stamp(image)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.image_key(image), "utf-8")

    def _push_image(self, image: Image) -> None:
        with self.workshop.scratch("image") as layout:
            layers = [self.rootfs_tar(self._rootfs[image.rootfs])] if image.rootfs else []
            if image.files:
                layer = layout / "layer.tar"
                with tarfile.open(layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
                    self.contents.add_files(tar, image)
                layers.append(layer)
            write_oci_layout(layout, image, layers)
            self.server.copy(f"oci:{layout}", image)

    def _path(self, source: str) -> Path:
        scheme, _colon, rest = source.partition(":")
        if scheme == "role":
            return self.role_files / rest
        owner, _slash, path = rest.partition("/")
        program = self._programs[owner]
        return (self.program_dir(program) if scheme == "program" else self.compiler.module_dir(program)) / path
