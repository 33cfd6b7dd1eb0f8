# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's role, and the versions and the host that it makes by default, as the recipe takes them; and programs of tests, built as the lab's."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from ansible_collections.kubegpu.lab.plugins.plugin_utils._build import Builder
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Image, Program, Recipe

ROLE = Path(__file__).parents[2] / "lab/roles/lab"
_DEFAULTS = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
_LISTS = {"kai", "vcluster"}
VERSIONS = {"frameworks": _DEFAULTS["lab_frameworks"]} | {
    name: _DEFAULTS[f"lab_{name}_version{'s' if name in _LISTS else ''}"]
    for name in (
        *("kubernetes", "kai", "vcluster", "kwok", "volcano", "kind", "helm", "nvidia_container_toolkit", "device_plugin"),
        *("etcd", "coredns", "kine", "local_path_provisioner"),
    )
}
LAB = {
    key: _DEFAULTS[f"lab_{key}"]
    for key in ("name", "gpu_name", "gpu_memory_mib", "driver_version", "host_release", "network_policies")
}


def built(home: Path, *programs: Program) -> Builder:
    """Build programs once for the user's cache, as the lab's programs are.

    :arg home: the folder that has their modules in ``programs``.
    """
    parts = Recipe(programs, (), (), (), (), Image("", ()), (), {})
    builder = Builder(parts, Path(os.environ["KUBEGPU_CACHE"]), home, print)
    builder.build()
    return builder
