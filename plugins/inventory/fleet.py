# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory plugin kubegpu.tenancy.fleet."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
short_description: Groups of clusters by what the state of a fleet says of them
version_added: 0.1.0
description:
  - Reads the C(fleet.json) of the playbook C(kubegpu.tenancy.fleet), and puts each cluster in it into groups. It asks no cluster.
  - The groups are C(result_RESULT), C(blueprint_NAME), C(kai_RELEASE) for each release of KAI Scheduler on the cluster, and
    C(support_until_MONTH) and C(support_ended) by upstream's support of these. What is no letter, digit or underscore is replaced by an
    underscore.
  - With O(rollout), the groups are also C(wave_NUMBER), and C(rollout_STATE) with the state of the cluster in that rollout, such as
    C(rollout_failed) or C(rollout_done).
  - What was seen is never taken for the desired state. The plugin sets no variable. Give it beside the inventory that has the clusters' variables.
  - The name of a file for this plugin ends in C(fleet.yml) or C(fleet.yaml).
author: kubegpu.tenancy contributors (@kubegpu)
options:
  plugin:
    description: Has to be V(kubegpu.tenancy.fleet).
    type: str
    required: true
    choices: [kubegpu.tenancy.fleet]
  state:
    description: Path of C(fleet.json) on the controller, from the folder of this file where it begins with no slash.
    type: str
    required: true
  rollout:
    description: Path of the C(rollout.json) of a rollout, alike. Empty for none.
    type: str
    default: ''
seealso:
  - module: kubegpu.tenancy.fleet
"""

EXAMPLES = r"""
# fleet.yml; then, for all clusters with a release whose support has ended:
# ansible-playbook kubegpu.tenancy.info -i inventory -i fleet.yml --limit support_ended
plugin: kubegpu.tenancy.fleet
state: page/fleet.json
"""

import os.path
import typing as t

from ansible.errors import AnsibleParserError
from ansible.inventory.group import to_safe_group_name
from ansible.plugins.inventory import BaseInventoryPlugin

from ..module_utils._adapters import files
from ..module_utils._common.documents import parse_json
from ..module_utils._common.parties import reason
from ..module_utils._common.variables import KAI
from ..plugin_utils._fleet import FORMAT
from ..plugin_utils._fleet_files import LARGEST

FILE_NAMES = ("fleet.yml", "fleet.yaml")


class InventoryModule(BaseInventoryPlugin):
    """Put clusters into groups, see DOCUMENTATION."""

    NAME = "kubegpu.tenancy.fleet"

    def verify_file(self, path: str) -> bool:
        """Tell whether a file can be read by its name."""
        return bool(super().verify_file(path)) and path.endswith(FILE_NAMES)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        folder, state, rollout = os.path.dirname(os.path.abspath(path)), self.get_option("state"), self.get_option("rollout")
        fleet = _read(folder, state, "state of a fleet", lambda content: {one["name"]: groups(one) for one in clusters(content)})
        waves = _read(folder, rollout, "record of a rollout", groups_of_rollout) if rollout else {}
        for name in (*fleet, *(name for name in waves if name not in fleet)):
            for group in (*fleet.get(name, ()), *waves.get(name, ())):
                self.inventory.add_group(group)
                self.inventory.add_host(name, group=group)


def _read(folder: str, path: str, what: str, groups_in: t.Callable[[t.Any], dict[str, list[str]]]) -> dict[str, list[str]]:
    """Return the groups that a file gives its clusters, by their names.

    :raises AnsibleParserError: where it is no such file.
    """
    file = os.path.join(folder, os.path.expanduser(path))
    try:
        return groups_in(parse_json(files.read_file(file, LARGEST) or b"", LARGEST))
    except Exception as exc:
        # Of any other exception, Ansible says less.
        raise AnsibleParserError(f"{file} is no {what}: {reason(exc)}") from exc


def clusters(state: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the clusters of a fleet's state.

    :raises ValueError: for another format.
    """
    if state["format"] != FORMAT:
        raise ValueError(f"it has not format {FORMAT}")
    return list(state["clusters"])


def groups(cluster: dict[str, t.Any]) -> list[str]:
    """Return the groups of a cluster.

    :arg cluster: as docs/fleet.schema.json has it.
    """
    schedulers = [one for one in (cluster["shared_scheduler"], *(tenant["scheduler"] for tenant in cluster["tenants"])) if one]
    kai = [one for one in schedulers if one["name"] == KAI]
    parts = [f"result_{cluster['result']}"]
    parts += [f"blueprint_{cluster['blueprint']}"] if cluster["blueprint"] else []
    parts += [f"kai_{one['release']}" for one in kai if one["release"]]
    parts += [f"support_until_{one['end_of_support']}" for one in kai if one["end_of_support"]]
    parts += ["support_ended" for one in kai if one["supported"] is False]
    return _names(parts)


def groups_of_rollout(record: dict[str, t.Any]) -> dict[str, list[str]]:
    """Return the groups of each cluster of a rollout.

    :arg record: as the playbook rollout writes it.
    """
    return {name: _names([f"wave_{one['wave']}", f"rollout_{one['state']}"]) for name, one in record["clusters"].items()}


def _names(parts: t.Sequence[str]) -> list[str]:
    return [to_safe_group_name(part, replacer="_", force=True, silent=True) for part in dict.fromkeys(parts)]
