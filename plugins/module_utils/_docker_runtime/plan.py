# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Plan what it takes for a running Docker to take over its daemon.json: nothing, a reload or a restart.

On SIGHUP dockerd takes over the settings that the file has, and keeps the old values of settings that the file has no
more (moby, daemon/reload_unix.go). It registers CDI only when it starts.
"""

from __future__ import annotations

import typing as t

from .facts import DEFAULT, Path
from .status import Running
from .values import lookup

Need = t.Literal["nothing", "reload", "restart"]


def pending(document: dict[str, t.Any], owned: dict[Path, t.Any], running: Running) -> dict[Path, Need]:
    """Return what it takes for each owned setting, as far as Docker does not run with it.

    :arg document: daemon.json.
    :arg owned: the settings in question, with the values that they were given or are to be given.
    """
    needs: dict[Path, Need] = {}
    for path, value in owned.items():
        wanted = lookup(document, path)
        if path == DEFAULT:
            if wanted is None and running.default == value:
                needs[path] = "restart"
            elif wanted not in (None, running.default):
                needs[path] = "reload"
        elif path[0] == "features":
            # A setting that is gone means Docker's own default, which depends on its release.
            if running.cdi == (value if wanted is None else not wanted):
                needs[path] = "restart"
        elif wanted is None:
            if path[1] in running.runtimes:
                needs[path] = "reload" if "runtimes" in document else "restart"
        elif running.runtimes.get(path[1]) != wanted.get("path", ""):
            needs[path] = "reload"
    return needs


def need(needs: t.Iterable[Need]) -> Need:
    """Return what satisfies all of them."""
    distinct = set(needs)
    return "restart" if "restart" in distinct else "reload" if distinct else "nothing"
