# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.parties import Unread
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.inventory import Found
from ansible_collections.kubegpu.tenancy.plugins.modules import vcluster_info


@pytest.mark.parametrize(("name", "names"), [(None, ["ml", "web"]), ("ml", ["ml"]), ("none", [])])
def test_all_or_the_one_of_a_name(name, names, monkeypatch):
    unread = [Unread("Secret tenant-x/vc-config-x", "it is no YAML")]
    monkeypatch.setattr(vcluster_info, "find", lambda _kube: Found([{"name": each} for each in ("ml", "web")], unread))
    result = vcluster_info.reconcile(Run({"name": name}, kube=object()))
    told = ["Secret tenant-x/vc-config-x cannot be read: it is no YAML"]
    assert result == {"changed": False, "vclusters": [{"name": each} for each in names], "unread": told}
