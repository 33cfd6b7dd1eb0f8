# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook preflight itself, on clusters of which there is no more than an API server in memory that refuses to be written to."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.playbooks import NODE, RUNTIME_CLASS, Site
from ansible_collections.kubegpu.tenancy.tests.unit.served import served


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.mark.parametrize("playbook", ["preflight", "drift"])
def test_a_kubeconfig_that_is_not_there_is_named_with_its_host(site: Site, playbook: str) -> None:
    with served(InMemoryApi([NODE, RUNTIME_CLASS])) as server:
        site.add("gpu1", server, kubegpu_kubeconfig="/etc/none.yml")
        said = site.run("--check", playbook=playbook)
    assert site.code != 0, said
    assert "the file /etc/none.yml, which kubegpu_kubeconfig names, does not exist on gpu1." in said
