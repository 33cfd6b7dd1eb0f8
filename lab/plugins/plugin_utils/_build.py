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

import contextlib
import dataclasses
import fcntl
import hashlib
import io
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import time
import typing as t
import urllib.error
from pathlib import Path

import yaml
from ansible.module_utils import urls
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import load_document, load_documents
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import CommandFailed, TenancyError

from ._recipe import Chart, File, Image, Program, Recipe, Rootfs

HEARTBEAT = 30.0
# mmdebstrap and the Go client resume nothing half-made, but a step never takes longer than this on two cores.
STEP_TIMEOUT = 3600.0


class Builder:
    """Builds what the recipe names and the cache lacks.

    :arg cache: the cache's folder, shared by all labs of this user.
    :arg role_files: the role's C(files/).
    :arg say: prints one line of progress.
    """

    _doing = "building"

    def __init__(self, recipe: Recipe, cache: Path, role_files: Path, say: t.Callable[[str], None]) -> None:
        self.recipe = recipe
        self.cache = cache
        self.charts = cache / "charts"
        self.registry = cache / "registry"
        self.role_files = role_files
        self._tmp = cache / "tmp" / "build"
        self._say = say
        self._programs = {program.id: program for program in recipe.programs}
        self._rootfs = {rootfs.name: rootfs for rootfs in recipe.rootfs}
        self._started = time.monotonic()
        self._step = ""
        self.built: list[str] = []

    # The whole

    def missing(self) -> list[str]:
        """What a build would make, by name."""
        return [name for name, done, _make in self._steps() if not done()]

    def build(self) -> None:
        """Make everything that is missing, one after another; raises TenancyError naming the step that failed."""
        self.cache.mkdir(parents=True, exist_ok=True)
        with open(self.cache / "lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say("another lab is building into this cache, waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            # What a killed build left.
            shutil.rmtree(self._tmp, ignore_errors=True)
            steps = [(name, make) for name, done, make in self._steps() if not done()]
            with self._serving(needed=any(name.startswith("image ") for name, _make in steps)):
                for number, (name, make) in enumerate(steps, 1):
                    self._step = f"{number} of {len(steps)}, {name}"
                    self._say(f"{self._doing} {self._step} ({_clock(time.monotonic() - self._started)} so far)")
                    try:
                        make()
                    except OSError as exc:
                        raise TenancyError(f"{self._step}: {exc}.{self._disk_hint(str(exc))}") from exc
                    self.built.append(name)
            shutil.rmtree(self._tmp, ignore_errors=True)

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
        return self.cache / "programs" / f"{program.id}-{self._program_key(program)}"

    def _module_files(self, program: Program) -> Path:
        folder = self.role_files / "programs" / program.id
        if not (folder / "go.mod").is_file():
            known = sorted(path.name.removeprefix(f"{program.name}-") for path in folder.parent.glob(f"{program.name}-*"))
            raise TenancyError(
                f"The lab cannot build {program.name} {program.version}: it has pinned modules for {', '.join(known) or 'none'}."
            )
        return folder

    def _program_key(self, program: Program) -> str:
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(program), sort_keys=True).encode())
        if program.c_source:
            if program.c_source.startswith("role:"):
                folder = (self.role_files / program.c_source.removeprefix("role:")).parent
                _digest_tree(digest, folder)
        else:
            _digest_tree(digest, self._module_files(program))
        return digest.hexdigest()[:12]

    def _build_program(self, program: Program) -> None:
        with self._atomic(self.program_dir(program)) as out:
            out.mkdir()
            if program.c_source:
                macros = [f"-D{name}={value if value.isdigit() else json.dumps(value)}" for name, value in program.defines]
                source = self._path(program.c_source)
                self._run(["gcc", *program.c_flags, *macros, "-o", str(out / program.name), str(source)])
            else:
                linker = " ".join(
                    ["-s -w", *(f"-X {name}={value}" for name, value in program.defines), *filter(None, [program.linker_flags])]
                )
                folder = self._module_files(program)
                what = "." if (folder / "main.go").exists() else "tool"
                # Without what only debuggers read, compilers write a fifth less.
                command = ["go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", linker, "-o", f"{out}/", what]
                self._run(command, cwd=folder, env=_go_env(program))

    def _module_dir(self, program: Program) -> Path:
        """The folder of a program's own module in Go's module cache, fetched when a cleaned cache lacks it."""
        folder, query = self._module_files(program), ["list", "-m", "-f", "{{.Dir}}", program.module]
        found = self._run(["go", *query], cwd=folder, env=_go_env(program)).strip()
        if not found:
            self._run(["go", "mod", "download", program.module], cwd=folder, env=_go_env(program))
            found = self._run(["go", *query], cwd=folder, env=_go_env(program)).strip()
        return Path(found)

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
        with self._atomic(self.rootfs_tar(rootfs)) as out:
            self._run([*command, rootfs.suite, str(out)])

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
        with self._scratch("chart") as scratch:
            (scratch / "out").mkdir()
            homes = {f"HELM_{home}_HOME": str(scratch / home) for home in ("CACHE", "CONFIG", "DATA")}
            self._run([str(helm), *command, "--destination", str(scratch / "out")], env=os.environ | homes)
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
                digest.update(self._joined(rest))
        return digest.hexdigest()[:12]

    def _image_stamp(self, image: Image) -> Path:
        return self.registry / "stamps" / image.ref.replace("/", "+")

    def _image_current(self, image: Image) -> bool:
        stamp = self._image_stamp(image)
        return stamp.is_file() and stamp.read_text("utf-8") == self.image_key(image)

    def write_image_tar(self, image: Image, out: t.BinaryIO) -> None:
        """The image's whole file system as one tar, as C(docker import) takes it."""
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            replaced = {file.path.lstrip("/") for file in image.files}
            with tarfile.open(self.rootfs_tar(self._rootfs[image.rootfs]), mode="r|") as base:
                for member in base:
                    if member.name.removeprefix("./") not in replaced:
                        tar.addfile(member, base.extractfile(member) if member.isreg() else None)
            self._add_files(tar, image)

    def _store_image(self, image: Image) -> None:
        self._push_image(image)
        stamp = self._image_stamp(image)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(self.image_key(image), "utf-8")

    def _push_image(self, image: Image) -> None:
        with self._scratch("image") as layout:
            layers = [self.rootfs_tar(self._rootfs[image.rootfs])] if image.rootfs else []
            if image.files:
                layer = layout / "layer.tar"
                with tarfile.open(layer, mode="w", format=tarfile.PAX_FORMAT) as tar:
                    self._add_files(tar, image)
                layers.append(layer)
            _write_oci_layout(layout, image, layers)
            self._copy(f"oci:{layout}", image)

    def _copy(self, source: str, image: Image, *options: str) -> None:
        command = ["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", *options]
        self._run([*command, source, f"docker://{self._registry_address}/{image.ref}"])

    def _add_files(self, tar: tarfile.TarFile, image: Image) -> None:
        for file in image.files:
            scheme, _colon, rest = file.source.partition(":")
            if scheme in ("text", "link"):
                info = tarfile.TarInfo(file.path.lstrip("/"))
                if scheme == "link":
                    info.type, info.linkname = tarfile.SYMTYPE, rest
                    tar.addfile(info)
                else:
                    _add_bytes(tar, info.name, rest.encode(), file.mode)
            elif scheme == "roles":
                _add_bytes(tar, file.path.lstrip("/"), self._joined(rest), file.mode)
            elif scheme == "storage":
                _add_bytes(
                    tar, file.path.lstrip("/"), _storage_manifest(self._path(f"module:{rest}").read_text("utf-8")), file.mode
                )
            else:
                self._add_path(tar, file, self._path(file.source))

    def _add_path(self, tar: tarfile.TarFile, file: File, source: Path) -> None:
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_dir():
                continue
            name = file.path.lstrip("/") + ("" if path == source else f"/{path.relative_to(source)}")
            _add_bytes(tar, name, path.read_bytes(), file.mode)

    def _joined(self, paths: str) -> bytes:
        return b"".join((self.role_files / path).read_bytes() for path in paths.split())

    def _path(self, source: str) -> Path:
        scheme, _colon, rest = source.partition(":")
        if scheme == "role":
            return self.role_files / rest
        owner, _slash, path = rest.partition("/")
        program = self._programs[owner]
        return (self.program_dir(program) if scheme == "program" else self._module_dir(program)) / path

    @contextlib.contextmanager
    def _serving(self, needed: bool) -> t.Iterator[None]:
        """A registry on loopback that writes into the cache, only while images are pushed."""
        if not needed:
            yield
            return
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._registry_address = f"127.0.0.1:{probe.getsockname()[1]}"
        config = {
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self.registry)}},
            "http": {"addr": self._registry_address},
        }
        with self._scratch("registry") as scratch:
            (scratch / "config.yml").write_text(json.dumps(config), "utf-8")
            with open(scratch / "log", "wb") as log, _process(["docker-registry", "serve", str(scratch / "config.yml")], log):
                deadline = time.monotonic() + 20
                while not answers(f"http://{self._registry_address}/v2/", timeout=2, use_proxy=False):
                    if time.monotonic() > deadline:
                        raise TenancyError(
                            f"docker-registry did not start within 20 s: {(scratch / 'log').read_text('utf-8')[-500:]}"
                        )
                    time.sleep(0.1)
                yield

    # Small tools

    @contextlib.contextmanager
    def _scratch(self, name: str) -> t.Iterator[Path]:
        path = self._tmp / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextlib.contextmanager
    def _atomic(self, target: Path) -> t.Iterator[Path]:
        """A path to make something at; it becomes ``target`` only when all went well."""
        with self._scratch("new") as scratch:
            target.parent.mkdir(parents=True, exist_ok=True)
            made = scratch / target.name
            yield made
            os.replace(made, target)

    def _run(self, command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
        """Run to the end with a sign of life every HEARTBEAT seconds; its standard output."""
        if not shutil.which(command[0]):
            raise TenancyError(f"{self._step} needs the program {command[0]}, which is not installed.")
        log_path = self._tmp / f"log-{os.getpid()}"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        try:
            with open(log_path, "w+b") as log, open(f"{log_path}.out", "w+b") as out:
                with _process(command, log, out, cwd, env) as process:
                    while True:
                        try:
                            code = process.wait(HEARTBEAT)
                            break
                        except subprocess.TimeoutExpired:
                            waited = time.monotonic() - start
                            if waited > STEP_TIMEOUT:
                                raise TenancyError(f"{self._step}: {command[0]} was stopped after {_clock(waited)}.") from None
                            self._say(f"still {self._doing} {self._step}: {_clock(waited)}")
                out.seek(0)
                if code == 0:
                    return out.read().decode(errors="replace")
                log.seek(0)
                output = (log.read()[-3000:] + out.read()[-500:]).decode(errors="replace").strip()
        finally:
            log_path.unlink(missing_ok=True)
            Path(f"{log_path}.out").unlink(missing_ok=True)
        raise CommandFailed(
            f"{self._step}: {' '.join(command[:3])} ended with code {code}.{self._disk_hint(output)} Its last output: {output}",
            rc=code,
        )

    def _disk_hint(self, output: str) -> str:
        free = shutil.disk_usage(self.cache).free // 2**20
        if "no space left" not in output.lower() and free > 100:
            return ""
        return f" The disk of {self.cache} is full, {free} MiB are left. What was built stays, the next run goes on from there."


@contextlib.contextmanager
def _process(
    command: list[str],
    log: t.IO[bytes],
    out: t.IO[bytes] | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> t.Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, which ends with this block, or with this process should that be killed."""
    with subprocess.Popen(
        ["setpriv", "--pdeathsig=TERM", "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=out or log,
        stderr=log,
        cwd=cwd,
        env=env,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(20)


def _go_env(program: Program) -> dict[str, str]:
    # GOGC: memory is cheaper than the compiler's own garbage collection. GOTOOLCHAIN: never fetch another Go.
    return os.environ | {
        "CGO_ENABLED": "1" if program.cgo else "0",
        "GOFLAGS": "-mod=readonly",
        "GOGC": "400",
        "GOTOOLCHAIN": "local",
    }


def _digest_tree(digest: t.Any, folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def _storage_manifest(text: str) -> bytes:
    """local-path-provisioner's own manifest as kind wants it: the default class, on every node, with pinned images."""
    documents = [document for document in load_documents(text) if document]
    for document in documents:
        if document["kind"] == "StorageClass":
            document["metadata"]["name"] = "standard"
            document["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        elif document["kind"] == "Deployment":
            spec = document["spec"]["template"]["spec"]
            spec["tolerations"] = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]
        elif document["kind"] == "ConfigMap":
            pod = load_document(document["data"]["helperPod.yaml"])
            pod["spec"]["containers"][0]["image"] = "docker.io/library/busybox:1.37.0"
            document["data"]["helperPod.yaml"] = yaml.safe_dump(pod)
    return yaml.safe_dump_all(documents).encode()


def _write_oci_layout(layout: Path, image: Image, layers: list[Path]) -> None:
    """An OCI image layout; skopeo compresses its layers on their way to the registry."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(content: bytes, media_type: str) -> dict[str, t.Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(content)}

    descriptors = []
    for layer in layers:
        with open(layer, "rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        (blobs / digest).symlink_to(layer)
        descriptors.append(
            {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": f"sha256:{digest}", "size": layer.stat().st_size}
        )
    run: dict[str, t.Any] = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    run |= {"Entrypoint": list(image.entrypoint)} if image.entrypoint else {}
    run |= {"User": image.user} if image.user else {}
    run |= {"StopSignal": image.stop_signal} if image.stop_signal else {}
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [descriptor["digest"] for descriptor in descriptors]},
        "history": [{"created_by": "kubegpu.tenancy lab"} for _descriptor in descriptors],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": descriptors,
    }
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), "manifest.v1+json")]}
    (layout / "index.json").write_text(json.dumps(index), "utf-8")
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', "utf-8")


def answers(url: str, timeout: float, use_proxy: bool = True) -> bool:
    """Whether a web server is there, whatever it says."""
    try:
        urls.open_url(url, timeout=timeout, use_proxy=use_proxy).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, urls.ConnectionError):
        return False
    return True


def _clock(seconds: float) -> str:
    minutes, rest = divmod(math.floor(seconds), 60)
    return f"{minutes}:{rest:02d}"
