# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import gpus_of


def test_a_pod_holds_its_sum_or_its_largest_init_container():
    def container(gpus):
        return {"resources": {"limits": {"nvidia.com/gpu": gpus}}}

    assert gpus_of({"containers": [container("1"), container("2"), {}]}) == 3
    assert gpus_of({"containers": [container("1")], "initContainers": [container("2"), container("1")]}) == 2
    assert gpus_of({"containers": [{}]}) == 0
