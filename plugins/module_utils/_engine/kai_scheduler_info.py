# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read which KAI Scheduler is installed, and what is known of it."""

from __future__ import annotations

import datetime
import typing as t

from .._common.documents import DEEPEST, depth, parse_json
from .._common.names import KAI_NAMESPACE
from .._common.parties import attempt, required
from .._common.run import Result, Run
from .._common.text import legible
from .._common.values import utc_now
from .._kai import status
from .._kai.availability import read_parts
from .._kai.facts import work_hazards_of
from .._kai.lifecycle import asked_of, helm_release
from .._kai.validation import hazards_on, touching
from .._kai.validation import release as find_release
from .._probe.kai_scheduling.facts import RECORD, REPORT_KEY

ARGUMENT_SPEC = {"helm_binary": {"type": "str", "default": "helm"}}


def reconcile(run: Run, today: datetime.date | None = None) -> Result:
    """Read what is installed; ``today`` decides whether it is still supported."""
    installed = helm_release(run).inspect()
    if installed is None:
        return {"changed": False, "installed": False}
    release = find_release(installed.chart_version)
    parts = read_parts(run.kube, release)
    # In a virtual cluster its administrator writes them.
    missing, conditions = required(
        "what KAI Scheduler's operator reports", lambda: (status.missing(release, parts), status.conditions(parts))
    )
    today = today or utc_now().date()
    accepted = status.accepted_hazards(run.kube.get("v1", "Namespace", KAI_NAMESPACE))
    touched = touching(release, asked_of(run.kube, release, installed.values), today)
    report = ((run.kube.get("v1", "ConfigMap", RECORD, KAI_NAMESPACE) or {}).get("data") or {}).get(REPORT_KEY)
    return {
        "changed": False,
        "installed": True,
        "version": release.version,
        "known": release.known,
        "status": installed.status,
        "values": installed.values,
        "installed_by": "operator" if release.operator else "helm",
        "ready": installed.status == "deployed" and not missing,
        "missing": missing,
        "conditions": conditions,
        "hazards": [str(hazard) for hazard in (*hazards_on(release, today), *work_hazards_of(release.number))],
        "touching_hazards": [str(hazard) for hazard in touched],
        "accepted_hazards": [hazard.name for hazard in touched if hazard.name in accepted],
        "long_term": release.long_term,
        "end_of_support": release.end_of_support,
        "supported": status.is_supported(release, today),
        "kubernetes_tested": status.is_kubernetes_tested(release, run.kube.version()),
        "last_probe": attempt("", lambda: _last_probe(report))[0] if report else None,
    }


def _last_probe(report: str) -> t.Any:
    """Return the record of a probe as it may be shown; None where it is nested deeper than any record."""
    found = parse_json(report)
    return None if depth(found) > DEEPEST else legible(found)
