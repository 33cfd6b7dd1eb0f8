# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Check what is said of the Prometheus that reads metrics. Pure."""

from __future__ import annotations

import typing as t

from .._common.forms import is_namespace, label_problems
from .._common.schema import Problems, quoted
from .._common.values import JsonObject
from .facts import ANNOTATIONS, READER


def reader(given: t.Any, path: str, problems: Problems) -> JsonObject:
    """Return what is said of the Prometheus, every key filled in; empty for none.

    :arg path: of the variable or option, for the problems.
    """
    if given == {}:
        return {}
    found = problems.mapping(given, READER, path)
    namespace, labels = found.get("namespace"), found.setdefault("labels", {})
    if namespace is not None and not is_namespace(namespace):
        problems.add("not-a-name", f"{path}.namespace", f"{quoted(namespace)} is no name of a namespace, such as monitoring.")
    if labels and found.get("provider") == ANNOTATIONS:
        problems.add(
            "not-applicable", f"{path}.labels", "are those of ServiceMonitors, of which there are none with annotations."
        )
    problems.extend(label_problems(labels, f"{path}.labels"))
    return found
