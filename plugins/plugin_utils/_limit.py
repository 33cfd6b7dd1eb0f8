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
from pathlib import Path

from ansible.inventory.group import to_safe_group_name
from ansible.inventory.manager import split_host_pattern

from ..module_utils._common.text import shown


def group_name(name: str) -> str:
    """Return the name that a group of the inventory has, such as tenant_team_ml for tenant_team-ml."""
    return str(to_safe_group_name(name, replacer="_", force=True, silent=True))


def left_out(limit: str, cluster: str, tenant: str, groups: t.Iterable[str]) -> str:
    """Return why nothing would be done for a tenant, or a limit cannot be read; empty where its host stays in the run.

    Ansible compares a limit with the hosts that a run adds, too, such as gpu1/team-ml, and leaves them out without a word.

    :arg limit: as given to --limit, empty for none; ``groups``, that the tenant's host is in.
    """
    names = ("all", f"{cluster}/{tenant}", *groups)
    try:
        patterns = _patterns(limit)
        if _selects(patterns, names):
            return ""
    except re.error as exc:
        return (
            f"--limit {shown(limit)} cannot be read: what stands behind ~ is a regular expression, and here it is none ({exc})."
        )
    # A name with a zero byte is no name.
    except (OSError, ValueError) as exc:
        return f"--limit {shown(limit)} cannot be read: what stands behind @ is a file on the controller ({shown(exc)})."
    holds = f", which says {shown(','.join(patterns))}," if "@" in limit else ""
    return (
        f"--limit {shown(limit)}{holds} leaves out {cluster}/{tenant}, the host that stands for tenant {tenant} during the run, so that nothing "
        f"would be done for it. Write --limit '{shown(limit)},*/*', which adds the tenants of these clusters. To act on some of them, add "
        "-e kubegpu_only=NAME."
    )


def _patterns(limit: str) -> list[str]:
    """Return the patterns of a limit, with those in a file in place of its name, such as @site.retry.

    :raises OSError: where such a file cannot be read.
    """
    found: list[str] = []
    for part in split_host_pattern(limit):
        lines = Path(part[1:]).read_text(encoding="utf-8", errors="replace").split("\n") if part.startswith("@") else [part]
        found += [line.strip() for line in lines]
    # A part between two commas, and a line, may be empty.
    return list(filter(None, found))


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
