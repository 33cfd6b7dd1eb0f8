# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig for use from elsewhere."""

from __future__ import annotations

import typing as t

import yaml


def kubeconfig_via(kubeconfig: str, proxy_url: str) -> str:
    """The same kubeconfig, reaching every cluster through a proxy; unchanged where there is none."""
    if not proxy_url:
        return kubeconfig
    config = yaml.safe_load(kubeconfig)
    for cluster in config["clusters"]:
        # Ansible's strings know where they come from, and YAML takes plain ones only.
        cluster["cluster"]["proxy-url"] = str(proxy_url)
    return yaml.safe_dump(config, sort_keys=False)


class FilterModule:
    """The collection's filter."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"kubeconfig_via": kubeconfig_via}
