# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""How Helm 3 and Helm 4 differ in what this collection uses, and what they report on standard error. Pure."""

from __future__ import annotations

import re
import typing as t

from .._common.errors import Problem, did_you_mean
from .._common.values import Values

# How standard error ends where `helm uninstall` finds no release: "Error: uninstall: Release not loaded: NAME: release: not found"
# (ErrReleaseNotFound in pkg/storage/driver/driver.go of both majors). The exit status is 1, as for every other error. Its option
# --ignore-not-found is no help: it also hides that the records of the release could not be read, such as a missing permission
# (pkg/action/uninstall.go of v3.19.5 and v4.3.1).
NOT_FOUND = "release: not found"

# The majors of Helm that the collection works with, and the arguments that only one of them needs for `helm upgrade`. The same in
# both, with the same output: get metadata, get values, show, template, uninstall; --reset-values, --values -, --timeout (for each
# operation, hooks among them, not for the whole), --create-namespace, --no-hooks, --plain-http, --repo, --api-versions. Without
# --wait both wait for hooks only. `helm list --all`, --atomic and --force of Helm 3 are gone or deprecated in 4, and not used.
UPGRADE_ARGUMENTS: dict[int, tuple[str, ...]] = {
    3: (),
    # pkg/cmd/upgrade.go of v4: by default it applies on the server's side what Helm 4 installed, and fails with a conflict where
    # someone else set a field, which Helm 3 changes back (k3s-io/helm-controller#343). --force-conflicts is no way out: it is
    # refused for a release that Helm 3 upgraded last (crossplane-contrib/provider-helm#403).
    4: ("--server-side=false",),
}

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


def violations(stderr: str, known: Values) -> list[Problem]:
    """List what a chart refuses of its values, each with the value's path; empty where helm failed for another reason.

    :arg stderr: helm's standard error.
    :arg known: the chart's own values, to guess what an unknown key was meant to be.
    """
    problems = [Problem("values-refused", f"values: {message.rstrip('.')}.") for message in _FAILED.findall(stderr)]
    types: dict[tuple[str, str], list[str]] = {}
    for pointer, message in _VIOLATION.findall(stderr):
        keys = [_unescaped(key).replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
        path = "values" + "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys)
        if message.startswith(UNKNOWN_KEYS):
            problems += [_unknown(path, _unescaped(key), _keys_at(known, keys)) for key in _QUOTED.findall(message)]
        elif wrong := _WRONG_TYPE.fullmatch(message):
            types.setdefault((path, wrong[1]), []).append(wrong[2])
        elif not _HEADING.fullmatch(message):
            problems.append(Problem("values-refused", f"{path}: {message}."))
    return problems + [
        Problem("wrong-type", f"{path}: must be of type {' or '.join(wanted)}, not {got}.")
        for (path, got), wanted in types.items()
    ]


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


def _unknown(path: str, key: str, known: list[str]) -> Problem:
    return Problem("unknown-key", f"{path}.{key}: the chart has no such key.{did_you_mean(key, known)}")


def _keys_at(values: t.Any, keys: list[str]) -> list[str]:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return list(values) if isinstance(values, dict) else []
