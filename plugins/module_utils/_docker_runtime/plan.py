# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a running Docker still lacks of its daemon.json, and whether a reload is enough for it.

On SIGHUP dockerd takes over the settings that the file has, and keeps the old values of those that it has no more
(moby, daemon/reload_unix.go). It registers CDI only when it starts.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._docker_runtime.daemon_json import DEFAULT, Path, lookup

Need = t.Literal["nothing", "reload", "restart"]


@dataclasses.dataclass(frozen=True)
class Running:
    """What Docker runs with.

    :ivar runtimes: each runtime's program, by name.
    :ivar cdi: whether containers can ask for CDI devices; None for a Docker that does not tell.
    """

    runtimes: dict[str, str]
    default: str
    cdi: bool | None
    live_restore: bool = False

    @classmethod
    def of_info(cls, info: dict[str, t.Any]) -> Running:
        """From what ``docker info`` prints as JSON."""
        return cls(
            {name: runtime.get("path", "") for name, runtime in info["Runtimes"].items()},
            info["DefaultRuntime"],
            bool(info["CDISpecDirs"]) if "CDISpecDirs" in info else None,
            info.get("LiveRestoreEnabled", False),
        )

    @classmethod
    def of_file(cls, document: dict[str, t.Any]) -> Running:
        """A Docker that was started with this daemon.json."""
        runtimes = {name: runtime.get("path", "") for name, runtime in document.get("runtimes", {}).items()}
        return cls(runtimes, document.get("default-runtime", "runc"), document.get("features", {}).get("cdi", False))


def pending(document: dict[str, t.Any], ours: dict[Path, t.Any], running: Running) -> dict[Path, Need]:
    """What it takes for each of our settings, as far as Docker does not run with it.

    :arg document: what daemon.json says.
    :arg ours: the settings in question, with the values that we gave them or want to give them.
    """
    needs: dict[Path, Need] = {}
    for path, value in ours.items():
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
    """What satisfies all of them."""
    found = set(needs)
    return "restart" if "restart" in found else "reload" if found else "nothing"
