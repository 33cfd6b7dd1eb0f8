# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what the lab and the execution environment are made of, as CycloneDX, into a folder, by default build; `make sbom` runs it.

build/lab.cdx.json has the Go modules of the lab's programs, the Python packages of the controller, and the Debian packages of the root
filesystems that this machine has built. build/execution-environment.cdx.json has what the example's definition names; what its base image and
its ranges of versions come to is known when it is built.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "lab/roles/lab/files/programs"
DEFINITION = ROOT / "examples/execution-environment/execution-environment.yml"
_REQUIRED = re.compile(r"^(?:require )?\t?(\S+) (v\S+)(?: // indirect)?$", re.MULTILINE)
_REPLACED = re.compile(r"^(?:replace )?\t?(\S+)(?: v\S+)? => (\S+) (v\S+)$", re.MULTILINE)
_PINNED = re.compile(r"^([\w.\[\]-]+)==([^\s;]+)", re.MULTILINE)
_IMAGE = re.compile(r"(?:--from=)?([\w.-]+\.[\w.-]+/[\w./-]+):([\w.-]+)")


def component(kind: str, name: str, version: str = "", namespace: str = "", sha256: str = "", **qualifiers: str) -> Component:
    """Return a component.

    :arg kind: type of its package URL: golang, pypi, deb, docker or generic.
    :arg version: empty where a range of them is named.
    :arg sha256: in hexadecimal digits; empty where none is known.
    """
    url = PackageURL(kind, namespace or None, name, version or None, qualifiers)
    return Component(
        type=ComponentType.CONTAINER if kind == "docker" else ComponentType.LIBRARY,
        name=f"{namespace}/{name}" if namespace and kind != "deb" else name,
        version=version or None,
        purl=url,
        bom_ref=url.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else [],
    )


def go_modules(program: Path) -> Iterator[Component]:
    """Return the modules that a program is built from: Go lists all of them in the go.mod of one that is built by itself."""
    mod = (program / "go.mod").read_text("utf-8")
    sums = dict(line.rsplit(" ", 1) for line in (program / "go.sum").read_text("utf-8").splitlines() if "/go.mod " not in line)
    replaced = {name: (by, version) for name, by, version in _REPLACED.findall(mod)}
    for name, version in _REQUIRED.findall(mod):
        module, at = replaced.get(name, (name, version))
        # go.sum's h1 is a SHA-256 of the module's files, in base 64.
        checksum = sums.get(f"{module} {at}", "").removeprefix("h1:")
        namespace, _slash, last = module.rpartition("/")
        yield component("golang", last, at, namespace, base64.b64decode(checksum).hex())


def python_packages(pins: Path) -> Iterator[Component]:
    """Return the packages of a file of pins."""
    for name, version in _PINNED.findall(pins.read_text("utf-8")):
        yield component("pypi", name.lower(), version)


def debian_packages(archive: Path) -> Iterator[Component]:
    """Return the packages of a root filesystem, by its own list of them; none where it has no list, as that of busybox."""
    with tarfile.open(archive) as tar:
        member = next((one for one in tar if one.name.removeprefix("./") == "var/lib/dpkg/status"), None)
        status = tar.extractfile(member) if member else None
        stanzas = status.read().decode("utf-8").split("\n\n") if status else []
    for stanza in filter(str.strip, stanzas):
        fields = dict(re.findall(r"^(\S+): (.+)$", stanza, re.MULTILINE))
        yield component("deb", fields["Package"], fields["Version"], "debian", arch=fields["Architecture"])


def lab(cache: Path) -> Iterator[Component]:
    """Return what a lab is made of.

    :arg cache: with the folder ``rootfs`` of what was built.
    """
    for program in sorted(PROGRAMS.iterdir()):
        yield from go_modules(program)
    yield from python_packages(ROOT / "requirements/run.txt")
    archives = sorted((cache / "rootfs").glob("*.tar"))
    if not archives:
        print(
            f"sbom: {cache}/rootfs has no root filesystem: the lab's Debian packages are left out until it is built.",
            file=sys.stderr,
        )
    for archive in archives:
        yield from debian_packages(archive)


def execution_environment() -> Iterator[Component]:
    """Return what the definition of the example names, with its version where that is one."""
    text = DEFINITION.read_text("utf-8")
    definition: dict[str, Any] = yaml.safe_load(text)
    for image, tag in _IMAGE.findall(text):
        registry, _slash, name = image.partition("/")
        yield component("docker", name, tag, repository_url=registry)
    dependencies = definition["dependencies"]
    for each in ("ansible_core", "ansible_runner"):
        for name, version in _PINNED.findall(dependencies[each]["package_pip"]):
            yield component("pypi", name, version)
    for collection in dependencies["galaxy"]["collections"]:
        if "version" in collection:
            yield component("generic", collection["name"], collection["version"])
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
    yield component("generic", f"{galaxy['namespace']}.{galaxy['name']}", galaxy["version"])
    for requirement in (ROOT / "meta/ee-requirements.txt").read_text("utf-8").splitlines():
        if requirement and not requirement.startswith("#"):
            yield component("pypi", re.split(r"[<>=~!]", requirement)[0])


def main(folder: Path, cache: Path) -> None:
    """Write both files into a folder."""
    folder.mkdir(exist_ok=True)
    for name, components in (("lab", lab(cache)), ("execution-environment", execution_environment())):
        # A program's modules are others' as well.
        distinct = {one.bom_ref.value: one for one in components}
        bom = Bom(components=distinct.values())
        bom.metadata.component = whole = Component(name=f"kubegpu.tenancy {name}", type=ComponentType.APPLICATION, bom_ref=name)
        bom.register_dependency(whole, distinct.values())
        text = JsonV1Dot6(bom).output_as_string(indent=2)
        if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
            sys.exit(f"sbom: {name}: {wrong}")
        path = folder / f"{name}.cdx.json"
        path.write_text(text + "\n", "utf-8")
        print(f"{path}: {len(distinct)} components")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build", Path(os.environ["KUBEGPU_CACHE"]))
