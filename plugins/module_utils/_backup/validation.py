# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Which backups are whole, and which of them a virtual cluster can be restored from."""

from __future__ import annotations

import re
import typing as t

from .._common.errors import Problem, refuse
from .._common.values import JsonObject, moment
from .._common.versions import number
from .facts import FORMAT, LARGEST, NEWER_KUBERNETES

_SHA256 = re.compile(r"[0-9a-f]{64}")
_RUN = re.compile(r"[0-9a-f]{32}")


def checked_record(record: t.Any, where: str) -> JsonObject:
    """Return the record of a backup, once it has the form of one.

    :arg where: its path, for the refusal.
    :raises Refused: with everything that is wrong with it.
    """
    given: JsonObject = record if isinstance(record, dict) else {}
    rules = (
        (given.get("format") == FORMAT, "format", f"is not {FORMAT}, the one that this version of the collection reads"),
        (
            isinstance(given.get("tenant"), str) and has_versions(given),
            "tenant",
            "is missing, or a version, which has two numbers at least",
        ),
        (_is_moment(given.get("at")), "at", "is no time with a time zone"),
        (_is_size(given.get("size")), "size", f"is no number of bytes from 1 to {LARGEST}"),
        (is_digest(given.get("sha256")), "sha256", "is no SHA-256"),
        (_are_texts(given.get("volumes_left_out", [])), "volumes_left_out", "is no list of names"),
        (_are_volumes(given.get("volumes", [])), "volumes", "is no list of snapshots with driver, handle, volume and claim"),
        (
            not given.get("volumes") or _has_form(given.get("run"), _RUN),
            "run",
            "is no identifier of the run that made the snapshots of volumes",
        ),
    )
    refuse(Problem("malformed-backup", f"{where}: {key} {text}.") for holds, key, text in rules if not holds)
    return given


def is_digest(value: t.Any) -> bool:
    """Tell whether a value is a SHA-256 in hexadecimal."""
    return _has_form(value, _SHA256)


def has_versions(record: JsonObject) -> bool:
    """Tell whether a record names the versions by which a restore is checked."""
    return all(isinstance(record.get(key), str) and len(number(record[key])) > 1 for key in ("version", "kubernetes_version"))


def check_versions(record: JsonObject, version: str, kubernetes: str | None) -> None:
    """Refuse to restore into a virtual cluster that does not read what the backup holds.

    :arg version: of vCluster, as it is installed; ``kubernetes``, of the tenant's Kubernetes, None where that is not known.
    :raises Refused: with all that is wrong.
    """
    made, problems = record["kubernetes_version"], []
    if number(version)[:2] < number(record["version"])[:2]:
        problems.append(
            Problem(
                "backup-version",
                f"The backup was made by vCluster {record['version']}, and {version} is installed. Install at least that minor version.",
            )
        )
    newer = number(kubernetes or made)[1] - number(made)[1]
    if not 0 <= newer <= NEWER_KUBERNETES:
        problems.append(
            Problem(
                "backup-version",
                f"The backup is of Kubernetes {made}, and the tenant has {kubernetes}. Give it that minor version, or the next one, by "
                "vcluster.kubernetes_version.",
            )
        )
    refuse(problems)


def _is_moment(value: t.Any) -> bool:
    try:
        return isinstance(value, str) and moment(value).tzinfo is not None
    except ValueError:
        return False


def _is_size(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST


def _are_texts(value: t.Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _has_form(value: t.Any, form: re.Pattern[str]) -> bool:
    return isinstance(value, str) and bool(form.fullmatch(value))


def _are_volumes(value: t.Any) -> bool:
    return isinstance(value, list) and all(_is_volume(each) for each in value)


def _is_volume(value: t.Any) -> bool:
    claim = value.get("claim") if isinstance(value, dict) else None
    if not isinstance(claim, dict) or not all(isinstance(value.get(key), str) for key in ("driver", "handle", "volume")):
        return False
    texts = (claim.get("labels"), claim.get("annotations"))
    return (
        isinstance(claim.get("name"), str)
        and isinstance(claim.get("spec"), dict)
        and all(isinstance(each, dict) and _are_texts([*each, *each.values()]) for each in texts)
    )
