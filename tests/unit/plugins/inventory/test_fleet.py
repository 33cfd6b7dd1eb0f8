# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json

import pytest
from ansible import constants
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import fragment_loader
from ansible.utils.plugin_docs import get_docstring
from ansible_collections.kubegpu.tenancy.plugins.inventory import fleet
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import utc_now
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout import plan
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.facts import STUCK
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.values import Rollout, Wave
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet import merged, summary
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import AT, two_clusters


@pytest.fixture(scope="module", autouse=True)
def _options():
    """As Ansible's loader does it: a plugin's options are what its documentation says."""
    documented = get_docstring(fleet.__file__, fragment_loader)[0]
    constants.config.initialize_plugin_configuration_definitions("inventory", fleet.InventoryModule.NAME, documented["options"])


def groups(folder, text, rollout=""):
    (folder / "fleet.json").write_text(text)
    (folder / "rollout.json").write_text(rollout)
    path = folder / "fleet.yml"
    more = "rollout: rollout.json\n" if rollout else ""
    path.write_text(f"plugin: kubegpu.tenancy.fleet\nstate: fleet.json\n{more}")
    inventory, plugin = InventoryData(), fleet.InventoryModule()
    plugin._load_name = plugin.NAME
    plugin._redirected_names = [plugin.NAME]
    assert plugin.verify_file(str(path))
    plugin.parse(inventory, DataLoader(), str(path))
    return {
        name: sorted(group.name for group in host.get_groups() if group.name != "all") for name, host in inventory.hosts.items()
    }


def test_clusters_are_in_groups_by_blueprint_release_and_support(tmp_path):
    state = merged([summary(evidence(two_clusters().reports(), AT), "monday")], AT, ["gpu1", "gpu2", "gpu9"])
    found = groups(tmp_path, json.dumps(state))
    assert {"blueprint_gpu_host_2026_11_23", "kai_v0_13_1", "kai_v0_16_8", "result_failed", "support_ended"} <= set(found["gpu1"])
    assert {"kai_v0_16_8", "result_incomplete"} <= set(found["gpu2"])
    assert "support_ended" not in found["gpu2"]
    assert [name for name in found["gpu2"] if name.startswith("support_until_")]
    assert found["gpu9"] == ["result_unknown"]


def test_clusters_are_in_groups_by_wave_and_state_of_a_rollout(tmp_path):
    waves = (Wave(("gpu1",), 1), Wave(("gpu2", "gpu7"), 2))
    wanted = Rollout("kai", "digest", waves, datetime.timedelta(), "", "")
    record = plan.begun(wanted, None, {"gpu1": False, "gpu2": True, "gpu7": True}, utc_now())
    record["clusters"]["gpu2"]["state"] = STUCK
    state = merged([summary(evidence(two_clusters().reports(), AT), "monday")], AT, ["gpu1", "gpu2"])
    found = groups(tmp_path, json.dumps(state), json.dumps(record))
    assert {"result_failed", "wave_1", "rollout_done"} <= set(found["gpu1"])
    assert {"wave_2", "rollout_did_not_go_back"} <= set(found["gpu2"])
    # It came to the inventory since the fleet was merged.
    assert found["gpu7"] == ["rollout_waiting", "wave_2"]
    with pytest.raises(AnsibleParserError, match=r"rollout\.json is no record of a rollout: "):
        groups(tmp_path, json.dumps(state), '{"clusters": {"gpu1": {}}}')


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2, "clusters": []}', '{"format": 1, "clusters": [{"name": "gpu1"}]}'])
def test_what_is_no_state_of_a_fleet_is_refused(tmp_path, text):
    with pytest.raises(AnsibleParserError, match=r"fleet\.json is no state of a fleet: "):
        groups(tmp_path, text)


def test_only_files_with_its_name_are_its_own(tmp_path):
    path = tmp_path / "hosts.yml"
    path.write_text("{}")
    assert not fleet.InventoryModule().verify_file(str(path))
