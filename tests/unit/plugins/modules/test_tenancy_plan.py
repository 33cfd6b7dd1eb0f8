# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.plan import VCLUSTER_VERSION
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import DEFAULT_VERSION
from ansible_collections.kubegpu.tenancy.plugins.modules import tenancy_plan

ROOT = Path(__file__).parents[4]
TENANT = {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}}


def call(capsys, **params) -> dict:
    with patch_module_args(params), pytest.raises(SystemExit):
        tenancy_plan.main()
    return json.loads(capsys.readouterr().out)


def test_tenants_come_back_complete(capsys):
    result = call(capsys, tenants=[TENANT], workers=[{"gpus": 4}])
    assert not result["changed"]
    assert result["tenants"][0]["queues"] == []


def test_all_problems_are_reported(capsys):
    result = call(capsys, tenants=[TENANT | {"trust": "x"}, {"name": "b", "trust": "high", "gpus": 1}], workers=[{"gpus": 4}])
    assert result["failed"]
    assert result["msg"].startswith("2 problems in the desired state, nothing was changed:\nkubegpu_tenants[0].trust: ")
    assert len(result["problems"]) == 2


@pytest.mark.parametrize(("provider", "failed"), [("nvkind", True), ("existing", False)])
def test_only_a_cluster_that_is_made_has_a_layout(capsys, provider, failed):
    assert call(capsys, tenants=[TENANT], provider=provider, workers=[]).get("failed", False) is failed


def test_in_check_mode(capsys):
    assert "tenants" in call(capsys, tenants=[], _ansible_check_mode=True)


def test_one_version_of_vcluster():
    module = yaml.safe_load((ROOT / "plugins/modules/vcluster.py").read_text().split('"""')[3])
    role = yaml.safe_load((ROOT / "roles/vcluster_tenant/defaults/main.yml").read_text())
    assert f"defaults to V({DEFAULT_VERSION})" in module["options"]["version"]["description"][0]
    assert DEFAULT_VERSION == role["vcluster_tenant_vcluster_version"] == VCLUSTER_VERSION
