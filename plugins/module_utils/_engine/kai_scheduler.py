# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Install, change or remove KAI Scheduler."""

from __future__ import annotations

import datetime
import typing as t

from .._adapters.helm import Chart, find_chart
from .._common.ownership import is_owned
from .._common.run import Result, Run
from .._common.values import deep_merge, utc_now
from .._kai.facts import CHART, CRD, KUEUE_TOPOLOGIES
from .._kai.lifecycle import Installation, absent
from .._kai.validation import check_hazard_names
from .._kai.validation import release as find_release
from .._kai.values import chart_values, ignored_values

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "version": {"type": "str"},
    "gpu_sharing": {"type": "bool", "default": False},
    "accept_hazards": {"type": "list", "elements": "str", "default": []},
    "cdi": {"type": "bool"},
    "purge": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 300},
}


def reconcile(run: Run, today: datetime.date | None = None) -> Result:
    """Install, change or remove KAI Scheduler; ``today`` decides whether a release is still supported."""
    params = run.params
    if params["state"] == "absent":
        return absent(run, params["purge"])
    release = find_release(params["version"])
    check_hazard_names(params["accept_hazards"])
    if not release.known:
        run.warn(f"KAI Scheduler {release.version} is not in the table of releases, and was treated as the newest there.")
    for warning in ignored_values(params["values"], release):
        run.warn(warning)
    upstream = Chart(release.chart, release.chart_version)
    chart = find_chart(params["chart_source"], CHART, release.chart_version, upstream)
    topologies = run.kube.get(*CRD, KUEUE_TOPOLOGIES) if release.topology_migration else None
    # One that was brought for an older release is no sign of Kueue.
    kueue = topologies is not None and not is_owned(topologies)
    values = deep_merge(chart_values(release, params["gpu_sharing"], params["cdi"], kueue), params["values"])
    return Installation(run, release, chart, values).present(today or utc_now().date())
