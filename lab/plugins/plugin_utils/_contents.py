# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""What is in the lab's images: files of the role, of programs and of their modules, as tar archives and as OCI layouts."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import typing as t
from pathlib import Path

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.documents import load_document, load_documents

from ._recipe import File, Image


class Contents:
    """The files of images.

    :arg role_files: the role's C(files/).
    :arg path: the path of a source of the schemes C(role), C(program) and C(module).
    """

    def __init__(self, role_files: Path, path: t.Callable[[str], Path]) -> None:
        self._role_files = role_files
        self._path = path

    def write_tar(self, image: Image, rootfs: Path, out: t.BinaryIO) -> None:
        """The image's whole file system as one tar, as C(docker import) takes it.

        :arg rootfs: tar archive of the root filesystem that it is built on.
        """
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            replaced = {file.path.lstrip("/") for file in image.files}
            with tarfile.open(rootfs, mode="r|") as base:
                for member in base:
                    if member.name.removeprefix("./") not in replaced:
                        tar.addfile(member, base.extractfile(member) if member.isreg() else None)
            self.add_files(tar, image)

    def add_files(self, tar: tarfile.TarFile, image: Image) -> None:
        """Add an image's own files to an archive."""
        for file in image.files:
            scheme, _colon, rest = file.source.partition(":")
            if scheme in ("text", "link"):
                info = tarfile.TarInfo(file.path.lstrip("/"))
                if scheme == "link":
                    info.type, info.linkname = tarfile.SYMTYPE, rest
                    tar.addfile(info)
                else:
                    add_bytes(tar, info.name, rest.encode(), file.mode)
            elif scheme == "roles":
                add_bytes(tar, file.path.lstrip("/"), self.joined(rest), file.mode)
            elif scheme == "storage":
                add_bytes(
                    tar, file.path.lstrip("/"), storage_manifest(self._path(f"module:{rest}").read_text("utf-8")), file.mode
                )
            else:
                self._add_path(tar, file, self._path(file.source))

    def _add_path(self, tar: tarfile.TarFile, file: File, source: Path) -> None:
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_dir():
                continue
            name = file.path.lstrip("/") + ("" if path == source else f"/{path.relative_to(source)}")
            add_bytes(tar, name, path.read_bytes(), file.mode)

    def joined(self, paths: str) -> bytes:
        """Several files of the role as one."""
        return b"".join((self._role_files / path).read_bytes() for path in paths.split())


def add_bytes(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    """Add one file to an archive."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def storage_manifest(text: str) -> bytes:
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


def write_oci_layout(layout: Path, image: Image, layers: list[Path]) -> None:
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
