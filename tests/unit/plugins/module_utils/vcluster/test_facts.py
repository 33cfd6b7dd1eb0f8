# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.synced import marker
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts


def test_upstream_names():
    assert facts.cluster_role_name("web", "tenant-web") == "vc-web-v-tenant-web"
    assert len(facts.cluster_role_name("a" * 40, "tenant-" + "a" * 40)) == 63
    assert marker("web", "tenant-web") == "tenant-web-x-web"
    assert len(marker("a" * 40, "tenant-" + "a" * 40)) == 63
