# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The evidence of a rehearsal: its files, a page for people and JUnit for pipelines among them."""

from __future__ import annotations

import json
import statistics
import typing as t

from ..module_utils._rehearsal.facts import INVARIANTS, MEANINGS, PROMOTE, REJECT, VERDICT
from ._junit import ERROR, FAILURE, Case, document, suite
from ._rehearsal_page import page

Data = t.Mapping[str, t.Any]

# What a report has beside the verdict.
_RESTS_ON = ("baseline", "candidate", "speed", "notes", "comparisons", "trace", "rounds")
# Of what did not hold, how much a test says.
_MOST = 50


def files(result: Data) -> dict[str, str]:
    """Return the content of the files of a rehearsal's evidence, by name.

    :arg result: of module rehearsal, with a verdict.
    """
    verdict = {key: result[key] for key in VERDICT}
    report = {key: result[key] for key in (*VERDICT, *_RESTS_ON)}
    return {
        f"verdict-{result['change']['name']}.json": _json(verdict),
        "rehearsal.json": _json(report),
        "rehearsal.html": page(report),
        "rehearsal.xml": junit(report),
    }


def _json(data: Data) -> str:
    return json.dumps(data, indent=4, sort_keys=True)


def junit(report: Data) -> str:
    """Return the verdict as JUnit's XML: a test for each invariant, for each measure, and for the whole.

    :arg report: as rehearsal.json has it.
    """
    played = report["rounds"]["candidate"]
    seen = [one for each in played for one in each["violations"]]
    cases = []
    # Of a candidate that could not be played, nothing is known.
    for invariant in INVARIANTS if played else ():
        wrong = [one["message"] for one in seen if one["invariant"] == invariant]
        cases.append(Case("rehearsal.invariants", MEANINGS[invariant], "; ".join(wrong[:_MOST])))
    for one in report["comparisons"]:
        said = f"{_spread(one['candidate'])} under the candidate, {one['allowed']:g} allowed" if one["worse"] else ""
        cases.append(Case("rehearsal.measures", one["name"], said))
    verdict = "" if report["result"] == PROMOTE else " ".join(report["reasons"])
    cases.append(Case("rehearsal.verdict", "promoted", verdict, ERROR if report["result"] == REJECT else FAILURE))
    return document([suite(f"rehearsal {report['baseline']['version']} to {report['candidate']['version']}", cases)])


def _spread(values: t.Sequence[float]) -> str:
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"
