# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this plugin util is PRIVATE to the collection: it may change in any release.
"""The folder on the controller with the files that others apply for the tenants of a cluster; other files in it stay as they are."""

from __future__ import annotations

import os
import typing as t

from ..module_utils._adapters import files
from ..module_utils._common.documents import LARGEST, Unreadable, load_documents
from ..module_utils._common.errors import Problem, TenancyError, refuse
from ..module_utils._common.text import shown
from ..module_utils._render.facts import CHART_FILE, MARK, SCHEDULER
from ..module_utils._render.validation import Former, former_of

# Texts by the paths of files in the cluster's folder, the tenant's name in front; None for a file that this collection did not write.
Found = t.Mapping[str, str | None]


class Change(t.NamedTuple):
    """A file that is written or removed: its path in the cluster's folder, and its text before and after, empty for none."""

    path: str
    before: str
    after: str

    def diff(self) -> dict[str, str]:
        """Return what ``--diff`` shows of it."""
        return {"before_header": self.path, "after_header": self.path, "before": self.before, "after": self.after}


def read(folder: str) -> dict[str, str | None]:
    """Return the files in a cluster's folder and below; links are not followed."""
    found = {}
    for place, _folders, names in os.walk(folder):
        for path in (os.path.join(place, name) for name in names):
            found[os.path.relpath(path, folder)] = _own(path)
    return found


def _own(path: str) -> str | None:
    """Return the text of a file that this collection wrote; None for another one."""
    try:
        content = None if os.path.islink(path) else files.read_file(path, LARGEST)
        text = (content or b"").decode()
    except (TenancyError, UnicodeDecodeError):
        return None
    return text if text.startswith(f"{MARK}\n") else None


def former(found: Found) -> dict[str, dict[str, str]]:
    """Return the scheduler that the files of each tenant have until now, as of ``Former``.

    :raises TenancyError: where a file cannot be read any more.
    """
    schedulers = {}
    for path, text in found.items():
        tenant, _slash, rest = path.partition("/")
        if text is not None and rest in (f"{SCHEDULER}.yaml", f"{SCHEDULER}/{CHART_FILE}"):
            scheduler = _former(path, text)
            if scheduler.release:
                schedulers[tenant] = scheduler._asdict()
    return schedulers


def _former(path: str, text: str) -> Former:
    try:
        return former_of(item for item in load_documents(text) if isinstance(item, dict))
    except Unreadable as exc:
        raise TenancyError(f"{path} cannot be read: {shown(exc)}. Restore it from git.") from exc


def changes(found: Found, wanted: t.Mapping[str, t.Mapping[str, str]], whole: bool) -> list[Change]:
    """Return what differs, by path.

    :arg wanted: the files of tenants, by their names.
    :arg whole: whether files of other tenants go.
    :raises Refused: where another author's file is in the way.
    """
    after = {f"{tenant}/{path}": text for tenant, texts in wanted.items() for path, text in texts.items()}
    refuse(
        Problem("not-ours", f"{path}: exists and was not written by this collection; it stays untouched.")
        for path in sorted(after)
        if path in found and found[path] is None
    )
    gone = {
        path: ""
        for path, text in found.items()
        if text is not None and (whole or path.partition("/")[0] in wanted) and path not in after
    }
    texts = sorted((gone | after).items())
    return [Change(path, found.get(path) or "", text) for path, text in texts if text != (found.get(path) or "")]


def write(folder: str, differing: t.Iterable[Change]) -> None:
    """Write and remove files in a cluster's folder, and folders that are empty then.

    :raises TenancyError: where that is not possible.
    """
    for change in differing:
        path = os.path.join(folder, change.path)
        if change.after:
            files.make_directories(os.path.dirname(path))
            files.write_file(path, change.after.encode())
        else:
            files.remove_file(path)
            files.remove_empty(os.path.dirname(path), folder)
