# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The server that has the series of a cluster, by the options of a module."""

from __future__ import annotations

from .._adapters.prometheus import Prometheus
from .._common.run import Run
from .._common.schema import Problems, plain
from .._usage.lifecycle import OfCluster
from .._usage.validation import check_server

SERVER_SPEC = {
    "url": {"type": "str"},
    "token": {"type": "str", "no_log": True},
    "org_id": {"type": "str"},
    "labels": {"type": "dict", "default": {}},
    "ca": {"type": "str"},
    "proxy": {"type": "str"},
}


def check_options(run: Run) -> None:
    """Refuse options of SERVER_SPEC by which no server can be reached.

    :raises Refused: with all ``problems``.
    """
    problems = Problems()
    check_server(run.params, "", problems)
    problems.raise_if_any("the options")


def server_of(run: Run) -> OfCluster:
    """Return the server that the options of SERVER_SPEC name, with no request.

    :raises TenancyError: where the certificates cannot be used.
    """
    given = {key: run.params[key] or "" for key in ("token", "org_id", "ca", "proxy")}
    server = Prometheus(run.params["url"], run.deadline, **given)
    return OfCluster(server, plain(run.params["labels"]))
