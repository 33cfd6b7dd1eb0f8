# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Fetches what upstream publishes of the lab's recipe, in place of building it.

It lies in the cache's C(pulled/), beside what was built, so that a lab never gets a mixture of the two.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import http.client
import json
import re
import shutil
import time
import typing as t
from pathlib import Path
from urllib.parse import urlsplit

from ansible.module_utils import urls
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

from ._build import Builder
from ._recipe import ENFORCING, Chart, Download, Image, Program, Recipe
from ._registry import answers
from ._workshop import HEARTBEAT

PROBE_TIMEOUT = 5.0
READ_TIMEOUT = 60.0
ALTERNATIVE = "The next run goes on from here; lab_images: build needs no registry."


def choose(source: str, mirror: str, recipe: Recipe, cache: Path, role_files: Path, say: t.Callable[[str], None]) -> Builder:
    """What makes the lab's parts. ``auto`` keeps what is complete, else pulls if all of upstream answers, else builds."""
    build = Builder(recipe, cache, role_files, say)
    if source == "build":
        return build
    pull = Puller(recipe, cache, role_files, say, mirror)
    if source == "pull":
        return pull
    # A version without pinned modules can only be pulled.
    with contextlib.suppress(TenancyError):
        if not build.missing():
            return build
    if not pull.missing():
        return pull
    if silent := pull.silent():
        say(f"no answer from {', '.join(silent)}, so the lab's images are built here")
        return build
    return pull


class Puller(Builder):
    """A builder that compiles nothing but this lab's simulated driver.

    :arg mirror: address of a web server with copies: of ``https://host/path`` at ``<mirror>/host/path``, of images at
        ``<mirror>/<upstream reference>``. Empty for upstream itself.
    """

    _doing = "pulling"

    def __init__(self, recipe: Recipe, cache: Path, role_files: Path, say: t.Callable[[str], None], mirror: str = "") -> None:
        if mirror and not mirror.startswith(("http://", "https://")):
            raise TenancyError(f"lab_mirror: {mirror} has to start with http:// or https://.")
        on_host = {
            file.source.partition(":")[2].partition("/")[0] for file in recipe.host.files if file.source.startswith("program:")
        }
        needed = dataclasses.replace(
            recipe,
            programs=tuple(program for program in recipe.programs if program.id in on_host),
            rootfs=tuple(rootfs for rootfs in recipe.rootfs if rootfs.name == recipe.host.rootfs),
            node_images=(),
            component_tags={},
        )
        super().__init__(needed, cache, role_files, say, home=cache / "pulled")
        self._mirror = mirror.rstrip("/")
        self._plain = mirror.startswith("http://")

    def silent(self) -> list[str]:
        """The servers that do not answer."""
        if self._mirror:
            addresses = [self._mirror]
        else:
            homes = [*(image.ref for image in self.recipe.images), *(chart.home for chart in self.recipe.charts)]
            hosts = {self._at(home).partition("/")[0] for home in (*homes, *(download.url for download in self.recipe.downloads))}
            # The registry of Docker Hub has another name than its images.
            addresses = [f"https://{host.replace('docker.io', 'registry-1.docker.io')}" for host in sorted(hosts)]
        with concurrent.futures.ThreadPoolExecutor(len(addresses)) as pool:
            found = pool.map(lambda address: answers(f"{address}/v2/", PROBE_TIMEOUT), addresses)
        return [urlsplit(address).netloc for address, answered in zip(addresses, found, strict=True) if not answered]

    def _at(self, upstream: str) -> str:
        """Where a reference or an address is fetched from, without its scheme."""
        bare = upstream.partition("://")[2] or upstream
        return f"{self._mirror.partition('://')[2]}/{bare}" if self._mirror else bare

    # Programs

    def _downloads(self, program: Program) -> list[Download]:
        return [download for download in self.recipe.downloads if download.program == program.id]

    def program_dir(self, program: Program) -> Path:
        if not (downloads := self._downloads(program)):
            return super().program_dir(program)
        digest = hashlib.sha256(json.dumps([dataclasses.asdict(download) for download in downloads]).encode())
        return self.cache / "pulled" / "programs" / f"{program.id}-{digest.hexdigest()[:12]}"

    def _build_program(self, program: Program) -> None:
        if not (downloads := self._downloads(program)):
            super()._build_program(program)
            return
        with self.workshop.atomic(self.program_dir(program)) as out:
            out.mkdir()
            for download in downloads:
                with self.workshop.scratch("download") as scratch:
                    self._unpack(download, scratch, out)

    def _unpack(self, download: Download, scratch: Path, out: Path) -> None:
        archive = scratch / download.url.rpartition("/")[2]
        self._fetch(download.checksums, scratch / "checksums")
        wanted = published_digest((scratch / "checksums").read_text("utf-8", "replace"), archive.name)
        found = self._fetch(download.url, archive)
        if found != wanted:
            raise TenancyError(f"{download.url} has the SHA-256 {found}, but {download.checksums} says {wanted or 'none'}.")
        tree = scratch / "tree"
        tree.mkdir()
        if archive.suffix == ".deb":
            self.workshop.run(["dpkg-deb", "--extract", str(archive), str(tree)])
        elif archive.name.endswith(".tar.gz"):
            self.workshop.run(["tar", "--extract", "--file", str(archive), "--directory", str(tree)])
        else:
            archive.rename(tree / download.members[0])
        for member in download.members:
            if not (tree / member).is_file():
                raise TenancyError(f"{download.url} holds no {member}.")
            shutil.copyfile(tree / member, out / Path(member).name)
            (out / Path(member).name).chmod(0o755)

    def _fetch(self, url: str, target: Path) -> str:
        """Download to a file; its SHA-256."""
        address = f"{'http' if self._plain else 'https'}://{self._at(url)}"
        digest, said = hashlib.sha256(), time.monotonic()
        try:
            with urls.open_url(address, timeout=READ_TIMEOUT) as answer, open(target, "wb") as out:
                while chunk := answer.read(1 << 20):
                    digest.update(chunk)
                    out.write(chunk)
                    if time.monotonic() - said > HEARTBEAT:
                        said = time.monotonic()
                        self.workshop.say(f"still pulling {self.workshop.step}: {out.tell() >> 20} MiB")
        except (OSError, http.client.HTTPException, urls.ConnectionError) as exc:
            raise TenancyError(f"{self.workshop.step}: {address} cannot be fetched: {exc}. {ALTERNATIVE}") from exc
        return digest.hexdigest()

    # Charts and images

    def _build_chart(self, chart: Chart) -> None:
        command = ["pull", "--version", chart.version]
        if chart.home.startswith("oci://"):
            command += [f"oci://{self._at(chart.home)}", *(["--plain-http"] if self._plain else [])]
        else:
            command += [chart.name, "--repo", f"{'http' if self._plain else 'https'}://{self._at(chart.home)}"]
        with self._from(chart.home):
            self._helm_makes(chart, command)

    def image_key(self, image: Image) -> str:
        return super().image_key(image) if image == self.recipe.host else "pulled"

    def _push_image(self, image: Image) -> None:
        with self._from(image.ref):
            options = ["--retry-times=2", *(["--src-tls-verify=false"] if self._plain else [])]
            self.server.copy(f"docker://{self._at(image.ref.removesuffix(ENFORCING))}", image, *options)

    @contextlib.contextmanager
    def _from(self, upstream: str) -> t.Iterator[None]:
        try:
            yield
        except TenancyError as exc:
            server = self._at(upstream).partition("/")[0]
            raise exc.saying(f"{upstream} cannot be pulled from {server}. {exc.message.rstrip('.')}. {ALTERNATIVE}") from exc


def published_digest(text: str, name: str) -> str:
    """The SHA-256 of the named file in a checksum file or in a Debian repository's index; empty where there is none."""
    if "Filename:" in text:
        stanzas = [stanza for stanza in text.split("\n\n") if re.search(rf"^Filename: (\S*/)?{re.escape(name)}$", stanza, re.M)]
        found = [match[1] for stanza in stanzas if (match := re.search(r"^SHA256: ([0-9a-f]{64})$", stanza, re.M))]
    else:
        found = re.findall(rf"^([0-9a-f]{{64}})(?:\s+\*?{re.escape(name)})?\s*$", text, re.M)
    return found[0] if len(found) == 1 else ""
