# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Refuse names that kind, Kubernetes or the host's file system would not take as they are meant."""

from __future__ import annotations

import re
import typing as t

from .._common.errors import Problem, refuse
from .._common.schema import Problems
from .facts import CLUSTER_NAME, CONTROL_PLANE_SUFFIX, DNS_SUBDOMAIN, NODE_NAME_LENGTH

# The file beside the clusters' folders that stands for Docker's network.
NETWORK_MARKER = "network"


def check_name(name: str) -> None:
    """Refuse a cluster's name of which no folder and no nodes can be made.

    A name that is valid as the first part of a node's name is also a name of a folder: it holds no slash, and is neither
    empty nor "." nor "..".

    :raises TenancyError: with every reason.
    """
    node, longest = f"{name}{CONTROL_PLANE_SUFFIX}", NODE_NAME_LENGTH - len(CONTROL_PLANE_SUFFIX)
    problems = Problems()
    if not re.fullmatch(CLUSTER_NAME, name) or not re.fullmatch(DNS_SUBDOMAIN, node):
        problems.add(
            "not-a-name",
            "name",
            f"{name!r} cannot be a cluster's name: lower-case letters, digits, '-' and '.' are allowed, "
            "beginning with a letter or digit, and '.' only between letters or digits.",
        )
    if len(node) > NODE_NAME_LENGTH:
        problems.add(
            "name-too-long",
            "name",
            f"{name!r} has more than {longest} characters, and its nodes' names more than {NODE_NAME_LENGTH}.",
        )
    if name == NETWORK_MARKER:
        problems.add(
            "reserved-name",
            "name",
            f"{name!r} is reserved, because the state of all clusters has a file of that name. Choose another.",
        )
    refuse(problems)


def check_mirrors(registries: t.Iterable[str]) -> None:
    """Refuse upstream registries of whose name no folder can be made.

    :raises TenancyError: with every one of them.
    """
    refuse(
        Problem(
            "not-a-registry",
            f"registry_mirrors: {registry!r} is not a registry's host, with a port if need be, such as docker.io.",
        )
        for registry in registries
        if "/" in registry or registry in ("", ".", "..")
    )
