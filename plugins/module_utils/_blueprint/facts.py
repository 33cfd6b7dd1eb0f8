# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a blueprint is: a file with versions and settings for the variables of an inventory that does not give them itself."""

from __future__ import annotations

import re

from .._common.schema import Field, Fields
from .._common.variables import BLUEPRINT, PREFIX, ROLLOUT, SHARED_SCHEDULER, TEMPORARY, TENANTS

# The date is part of the name, so that no name comes to mean something else.
NAME = re.compile(r"[a-z][a-z0-9-]*-(\d{4}-\d{2}-\d{2})")
EXAMPLE = "gpu-host-2026-11-23"

# Besides the variables of the desired state, those of roles that say which version of what is installed.
ROLE_VARIABLES = (
    "docker_nvidia_runtime_toolkit_version",
    "nvkind_engine",
    "nvkind_image",
    "device_plugin_provider",
    "device_plugin_version",
    "lab_kubernetes_version",
    "lab_kai_versions",
    "lab_vcluster_versions",
    "lab_device_plugin_version",
    "lab_nvidia_container_toolkit_version",
)
# What is one inventory's own.
OWN = (BLUEPRINT, "kubegpu_only", "kubegpu_confirm", TENANTS, TEMPORARY, SHARED_SCHEDULER, ROLLOUT)

CONTENT: Fields = {
    "about": Field(str, "What it is for.", required=True),
    "variables": Field(dict, f"Variables of clusters whose names begin with {PREFIX}, and versions that roles install.", {}),
    "vcluster": Field(
        dict,
        "Of tenants' virtual clusters.",
        {},
        fields={
            "version": Field(str, "Version of vCluster."),
            "kubernetes_version": Field(str, "Version of Kubernetes in them."),
        },
    ),
    "kai": Field(dict, "Of KAI Schedulers, tenants' own and the shared one.", {}, fields={"version": Field(str, "Its release.")}),
}
