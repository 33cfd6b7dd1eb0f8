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


def test_tables_of_versions_are_complete():
    charts = list(facts.DEFAULT_KUBERNETES)
    assert charts == list(range(facts.OLDEST_VERSION[1], 38))
    assert facts.parse_version(facts.DEFAULT_VERSION)[1] in charts
    installed = list(facts.DEFAULT_KUBERNETES.values())
    assert installed == sorted(installed)
    # What is wrong with some of them is of charts that there are.
    of_charts = [*facts.OLD_TENANT_FIX, *facts.KUBELET_FIX, *(facts.parse_version(version)[1] for version in facts.BAD_VERSIONS)]
    assert set(of_charts) <= set(charts)
    # Each of them has its CoreDNS, and is among what a syncer of that chart knows.
    assert list(facts.COREDNS) == list(range(min(facts.COREDNS), max(installed) + 1))
    assert min(facts.COREDNS) <= min(installed)
    assert min(facts.NEWEST_KUBERNETES) == facts.OLDEST_VERSION[1]
    for chart, kubernetes in facts.DEFAULT_KUBERNETES.items():
        assert [known for since, known in facts.NEWEST_KUBERNETES.items() if since <= chart][-1] >= kubernetes
