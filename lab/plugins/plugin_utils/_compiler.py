# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Compiles the lab's programs from pinned Go modules and C files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import typing as t
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

from ._recipe import Program
from ._workshop import Workshop


class Compiler:
    """Compiles programs.

    :arg role_files: the role's C(files/), with the programs' pinned modules.
    """

    def __init__(self, workshop: Workshop, role_files: Path) -> None:
        self._workshop = workshop
        self._role_files = role_files

    def key(self, program: Program) -> str:
        """A digest of everything a program is made from."""
        fields = dataclasses.asdict(program)
        # Programs without tags keep the place that they had before there were any.
        tags = fields.pop("tags")
        digest = hashlib.sha256(json.dumps([fields, tags] if tags else fields, sort_keys=True).encode())
        if program.c_source:
            if program.c_source.startswith("role:"):
                folder = (self._role_files / program.c_source.removeprefix("role:")).parent
                _digest_tree(digest, folder)
        else:
            _digest_tree(digest, self._module_files(program))
        return digest.hexdigest()[:12]

    def compile_c(self, program: Program, source: Path, out: Path) -> None:
        """Compile one C file into a folder."""
        macros = [f"-D{name}={value if value.isdigit() else json.dumps(value)}" for name, value in program.defines]
        self._workshop.run(["gcc", *program.c_flags, *macros, "-o", str(out / program.name), str(source)])

    def compile_go(self, program: Program, out: Path) -> None:
        """Compile a Go module's programs into a folder."""
        linker = " ".join(
            ["-s -w", *(f"-X {name}={value}" for name, value in program.defines), *filter(None, [program.linker_flags])]
        )
        folder = self._module_files(program)
        what = "." if (folder / "main.go").exists() else "tool"
        # Without what only debuggers read, compilers write a fifth less.
        command = ["go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags", linker, "-o", f"{out}/"]
        command += ["-tags", ",".join(program.tags)] if program.tags else []
        self._workshop.run([*command, what], cwd=folder, env=_go_env(program))

    def module_dir(self, program: Program) -> Path:
        """The folder of a program's own module in Go's module cache, fetched when a cleaned cache lacks it."""
        folder, query = self._module_files(program), ["list", "-m", "-f", "{{.Dir}}", program.module]
        found = self._workshop.run(["go", *query], cwd=folder, env=_go_env(program)).strip()
        if not found:
            self._workshop.run(["go", "mod", "download", program.module], cwd=folder, env=_go_env(program))
            found = self._workshop.run(["go", *query], cwd=folder, env=_go_env(program)).strip()
        return Path(found)

    def _module_files(self, program: Program) -> Path:
        folder = self._role_files / "programs" / program.id
        if not (folder / "go.mod").is_file():
            known = sorted(path.name.removeprefix(f"{program.name}-") for path in folder.parent.glob(f"{program.name}-*"))
            raise TenancyError(
                f"The lab cannot build {program.name} {program.version}: it has pinned modules for {', '.join(known) or 'none'}."
            )
        return folder


def _go_env(program: Program) -> dict[str, str]:
    # GOGC, GOMEMLIMIT: memory is cheaper than the compiler's own garbage collection, which begins at this size of each process. GOTOOLCHAIN: never
    # fetch another Go.
    return os.environ | {
        "CGO_ENABLED": "1" if program.cgo else "0",
        "GOFLAGS": "-mod=readonly",
        "GOGC": "off",
        "GOMEMLIMIT": "2GiB",
        "GOTOOLCHAIN": "local",
    }


def _digest_tree(digest: t.Any, folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
