# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Facts about Docker's configuration file."""

from __future__ import annotations

# A setting's keys, outermost first.
Path = tuple[str, ...]

# docs.docker.com, reference/cli/dockerd, "Daemon configuration file".
DEFAULT: Path = ("default-runtime",)
# The settings that a diff shows.
SETTINGS = ("default-runtime", "features", "runtimes")
# Where the Docker listens that systemd starts; /var/run is a link to /run.
SOCKETS = ("unix:///var/run/docker.sock", "unix:///run/docker.sock")
# What `docker info` calls security options (docs.docker.com: engine/security/rootless and engine/security/userns-remap).
ROOTLESS, REMAPPED = "name=rootless", "name=userns"
