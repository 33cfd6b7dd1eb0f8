# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Read what helm reports on standard error: pure functions over its text."""

from __future__ import annotations

import re
import typing as t

from .._common.errors import did_you_mean
from .._common.values import Values

# What helm 3.18 and later, and helm 4, print of values that a chart's schema refuses, each with a JSON pointer.
_VIOLATION = re.compile(r"^ *- at '((?:[^'\\]|\\.)*)': (.+)$", re.MULTILINE)
UNKNOWN_KEYS = "additional properties "
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_WRONG_TYPE = re.compile(r"got (\w+), want (.+)")
# Headings of the lines below them, which name the problem.
_HEADING = re.compile(r"validation failed|'\w+' failed, .*")
# A template's own `fail`.
_FAILED = re.compile(r"^Error: execution error at \(.*?\): (.+)$", re.MULTILINE)
# What helm prints last where it fails. Both majors may print where they pulled a chart from before that, Helm 4 also its log.
_ERROR = re.compile(r"^Error: ", re.MULTILINE)


def error_message(stderr: str) -> str:
    """Return the error in helm's standard error, without what it prints before; all of the text where there is none."""
    error = _ERROR.search(stderr)
    return stderr[error.start() if error else 0 :].strip()


def violations(stderr: str, known: Values) -> list[str]:
    """List what a chart refuses of its values, each with the value's path; empty where helm failed for another reason.

    :arg stderr: helm's standard error.
    :arg known: the chart's own values, to guess what an unknown key was meant to be.
    """
    problems = [f"values: {message.rstrip('.')}." for message in _FAILED.findall(stderr)]
    types: dict[tuple[str, str], list[str]] = {}
    for pointer, message in _VIOLATION.findall(stderr):
        keys = [_unescaped(key).replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
        path = "values" + "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys)
        if message.startswith(UNKNOWN_KEYS):
            problems += [_unknown(path, _unescaped(key), _keys_at(known, keys)) for key in _QUOTED.findall(message)]
        elif wrong := _WRONG_TYPE.fullmatch(message):
            types.setdefault((path, wrong[1]), []).append(wrong[2])
        elif not _HEADING.fullmatch(message):
            problems.append(f"{path}: {message}.")
    return problems + [f"{path}: must be of type {' or '.join(wanted)}, not {got}." for (path, got), wanted in types.items()]


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


def _unknown(path: str, key: str, known: list[str]) -> str:
    return f"{path}.{key}: the chart has no such key.{did_you_mean(key, known)}"


def _keys_at(values: t.Any, keys: list[str]) -> list[str]:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return list(values) if isinstance(values, dict) else []
