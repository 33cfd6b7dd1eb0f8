# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build NVIDIA's programs as the lab does, and copy them into a folder: ``programs.py FOLDER``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import NVIDIA_PROGRAMS, recipe
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import LAB, ROLE, VERSIONS, built

NAMES = (*NVIDIA_PROGRAMS, "nvidia-container-runtime.cdi", "nvidia-device-plugin")


def main(folder: Path) -> None:
    """Build what is not built yet, and copy it."""
    chosen = tuple(
        program for program in recipe(VERSIONS, LAB).programs if program.name in ("nvidia-container-toolkit", "k8s-device-plugin")
    )
    builder = built(ROLE / "files", *chosen)
    for program in chosen:
        for name in NAMES:
            if (path := builder.program_dir(program) / name).exists():
                shutil.copy(path, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
