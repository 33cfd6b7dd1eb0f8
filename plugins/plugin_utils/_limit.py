# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""Whether ansible-playbook's --limit leaves the hosts that stand for a cluster's tenants in a run."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ansible.inventory.manager import split_host_pattern
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.text import shown


def left_out(limit: str, cluster: str, tenant: str, groups: t.Iterable[str]) -> str:
    """Return why nothing would be done for a tenant, or a limit cannot be read; empty where its host stays in the run.

    Ansible compares a limit with the hosts that a run adds, too, such as gpu1/team-ml, and leaves them out without a word.

    :arg limit: as given to --limit, empty for none; ``groups``, that the tenant's host is in.
    """
    names = ("all", f"{cluster}/{tenant}", *groups)
    try:
        # A part between two commas may be empty.
        if not limit or _selects([pattern for pattern in split_host_pattern(limit) if pattern], names):
            return ""
    except re.error as exc:
        return (
            f"--limit {shown(limit)} cannot be read: what stands behind ~ is a regular expression, and here it is none ({exc})."
        )
    return (
        f"--limit {shown(limit)} leaves out {cluster}/{tenant}, the host that stands for tenant {tenant} during the run, so that nothing would be "
        f"done for it. Write --limit '{shown(limit)},*/*', which adds the tenants of these clusters."
    )


def _selects(patterns: t.Sequence[str], names: t.Sequence[str]) -> bool:
    """Tell whether patterns as Ansible takes them select a host with these names, its own and those of its groups."""

    def matches(pattern: str) -> bool:
        expression = pattern[1:] if pattern.startswith("~") else fnmatch.translate(pattern)
        return any(re.match(expression, name) for name in names)

    chosen = [pattern for pattern in patterns if pattern[0] not in "!&"]
    return (
        (not chosen or any(map(matches, chosen)))
        and all(matches(pattern[1:]) for pattern in patterns if pattern[0] == "&")
        and not any(matches(pattern[1:]) for pattern in patterns if pattern[0] == "!")
    )
