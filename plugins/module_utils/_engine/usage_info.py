# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Count GPU-hours, by the series of a server that answers PromQL or by kept evidence."""

from __future__ import annotations

import os
import typing as t

from .._adapters.files import list_directory, read_file
from .._common.documents import parse_json
from .._common.errors import refusal
from .._common.run import Result, Run
from .._common.schema import plain
from .._common.values import utc_now
from .._usage.evidence import readings_of
from .._usage.facts import EVIDENCE_FILE, LARGEST_EVIDENCE, MOST_FILES
from .._usage.lifecycle import read
from .._usage.model import Readings, parties
from .._usage.status import account
from .._usage.values import Span, days_of, shown_hour, span_of, zone_of
from .metrics_server import SERVER_SPEC, check_options, server_of

ARGUMENT_SPEC = {
    **SERVER_SPEC,
    "evidence": {"type": "path"},
    "cluster": {"type": "str"},
    "month": {"type": "str"},
    "begin": {"type": "str"},
    "end": {"type": "str"},
    "time_zone": {"type": "str", "default": "UTC"},
    "tenants": {"type": "list", "elements": "dict", "default": []},
    "timeout": {"type": "int", "default": 600},
}


def reconcile(run: Run) -> Result:
    """Return the GPU-hours of a span."""
    params = run.params
    check_options(run)
    month, begin, end = (params[key] or "" for key in ("month", "begin", "end"))
    span, unfinished = span_of(month, begin, end, utc_now())
    zone, tenants = zone_of(params["time_zone"]), parties(plain(params["tenants"]))
    readings = read(server_of(run), tenants, span) if params["url"] else _by_evidence(params, span)
    if unfinished:
        readings.notes.append(f"The span is not over: hours are counted until {shown_hour(span.end)}.")
    about = {"begin": shown_hour(span.begin), "end": shown_hour(span.end), "time_zone": params["time_zone"]}
    usage = about | {"source": readings.source} | account(readings, tenants, days_of(span, zone))
    return {"changed": False, "usage": usage}


def _by_evidence(params: t.Mapping[str, t.Any], span: Span) -> Readings:
    """Return what the files of a folder say."""
    folder = params["evidence"]
    found = list_directory(folder)
    names = [name for name in found if name.endswith(".json")]
    names += [
        path for path in (os.path.join(name, EVIDENCE_FILE) for name in found) if os.path.isfile(os.path.join(folder, path))
    ]
    if not names or len(names) > MOST_FILES:
        pieces = f"{len(names)} files *.json and folders with {EVIDENCE_FILE}"
        raise refusal("no-evidence", f"evidence: {folder} has {pieces}, and 1 to {MOST_FILES} are read.")

    def load(name: str) -> t.Any:
        return parse_json(read_file(os.path.join(folder, name), LARGEST_EVIDENCE) or b"", LARGEST_EVIDENCE)

    return readings_of(names, load, params["cluster"], span)
