# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and check the desired state on the controller, which has the inventory's variables; no cluster is asked."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

# Ansible imports every filter of a collection wherever a task uses one of them, and each task of a host is a process of its own. What is imported
# before the first of these processes begins, all of them have: Ansible imports the plugin of a playbook's first task there.
from ..filter import (  # noqa: F401  # pylint: disable=unused-import
    drift,
    evidence,
    failure_text,
    info,
    preflight,
    rehearsal,
    summary,
    tenants_work,
    text_table,
    usage,
)
from ..module_utils._blueprint.facts import ROLE_VARIABLES
from ..module_utils._common.errors import TenancyError
from ..module_utils._common.values import utc_now
from ..module_utils._common.variables import BLUEPRINT, PREFIX, WORKERS
from ..module_utils._desired.facts import VERSIONS
from ..module_utils._desired.layout import unwritten_quotas
from ..module_utils._desired.validation import desired_state
from ..plugin_utils._blueprints import load
from ..plugin_utils._quiet import quiet
from ..plugin_utils._role_variables import misspelled
from ..plugin_utils._tags import parts_of, refused_tags

ARGUMENT_SPEC = {
    "variables": {"type": "dict"},
    "running": {"type": "dict"},
    "installs": {"type": "bool", "default": True},
    "parts": {"type": "list", "elements": "str"},
}
# Variables of roles that the desired state is about as well.
OF_ROLES = (WORKERS, "nvkind_cluster_name", "lab_gpus", *VERSIONS, *ROLE_VARIABLES)
# Roles that run for a tenant, on behalf of its cluster's host.
TENANT_ROLES = ("vcluster_tenant_", "kai_scheduler_")


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the desired state of the inventory host, or fail with everything that is wrong with it."""
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        known = task_vars or {}
        tags = self._tags(args["parts"], known)
        if problem := refused_tags(*tags) if args["parts"] is not None else "":
            return {"failed": True, "msg": problem}
        given = args["variables"]
        variables = given if given is not None else self._templated(known, lambda key: key.startswith(PREFIX) or key in OF_ROLES)
        today = utc_now().date()
        host = str(known.get("inventory_hostname", "localhost"))
        try:
            blueprint = load(variables.get(BLUEPRINT))
            found = misspelled(known) if given is None else ()
            cluster = desired_state(variables, host, today, args["running"], args["installs"], blueprint, found)
        except TenancyError as exc:
            return {"failed": True, "msg": exc.message} | exc.details
        result: dict[str, t.Any] = {"changed": False, "cluster": cluster.data(), "parts": parts_of(*tags)}
        unsupported = [f"{name}: {hazard}." for name, hazards in cluster.unsupported.items() for hazard in hazards]
        untested = [f"{text}." for text in cluster.combinations["untested"]]
        if warnings := [*unsupported, *untested, *unwritten_quotas(cluster.selected)]:
            result["warnings"] = warnings
        if given is None:
            defaults = blueprint.variables if blueprint else {}
            result["defaults"] = {key: value for key, value in defaults.items() if key not in variables}
            result["role_variables"] = self._templated(known, lambda key: key.startswith(TENANT_ROLES))
        return quiet(result)

    def _tags(self, parts: list[str] | None, variables: dict[str, t.Any]) -> tuple[list[str], ...]:
        """Return the playbook's parts, the tags of --tags, the tags of --skip-tags, and the tags that stand for the whole playbook."""
        given = [list(variables.get(name) or []) for name in ("ansible_run_tags", "ansible_skip_tags")]
        # The task is always run, and has other tags only by playbooks that import its own.
        return (parts or [], *given, [tag for tag in self._task.tags if tag != "always"])

    def _templated(self, variables: dict[str, t.Any], wanted: t.Callable[[str], bool]) -> dict[str, t.Any]:
        """Return the variables that are wanted, with templates in them filled in."""
        return {key: self._templar.template(value) for key, value in variables.items() if wanted(key)}
