# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._role_variables import PREFIXES, ROLES, misspelled, variables_of
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed


@pytest.mark.parametrize(
    ("given", "question"),
    [
        ("nvkind_imaeg", "Did you mean nvkind_image?"),
        ("nvkind_workres", "Did you mean nvkind_workers?"),
        ("NVKIND_WORKERS", "Did you mean nvkind_workers?"),
        ("kai_scheduler_probe_time_out", "Did you mean kai_scheduler_probe_timeout?"),
    ],
)
def test_a_variable_that_is_nearly_a_roles_is_refused(given: str, question: str) -> None:
    (problem,) = misspelled([given, "nvkind_image", "ansible_host"])
    assert placed([problem]) == [f"{given}: unknown-variable"]
    assert question in problem.text


def test_variables_of_a_users_own_are_left_alone() -> None:
    assert list(misspelled(["nvkind_rack", "gateway_of_the_site", "kai_scheduler_owner", "lab_gpsu", "x"])) == []


def test_every_variable_of_a_role_is_known() -> None:
    roles = {f"{role.name}_" for role in ROLES.iterdir() if (role / "meta/argument_specs.yml").exists()}
    # Playbooks of rehearsals have variables beside their role's. Those of role monitoring are set by site, and users have such names of their own.
    assert roles - {"rehearsal_", "monitoring_"} == set(PREFIXES)
    names = [variables_of(prefix.removesuffix("_")) for prefix in PREFIXES]
    assert all(any(name.startswith(prefix) for prefix in PREFIXES) for name in itertools.chain(*names))
    assert list(misspelled(itertools.chain(*names))) == []
