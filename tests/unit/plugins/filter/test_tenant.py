# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.filter.tenant import FilterModule
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError

tenant = FilterModule().filters()["tenant"]


def test_a_tenant_gets_every_key():
    full = tenant({"name": "web", "trust": "high"})
    assert full.keys() == {
        "name",
        "trust",
        "state",
        "gpu_nodes",
        "vcluster",
        "quota",
        "network",
        "scheduler",
        "queues",
        "expires",
    }
    assert tenant(full) == full


@pytest.mark.parametrize(("given", "problems"), [({"name": "B", "trust": "x"}, 2), ("web", 1), (None, 1)])
def test_what_is_wrong_is_reported_at_once(given, problems):
    with pytest.raises(TenancyError) as caught:
        tenant(given)
    assert len(caught.value.problems) == problems
