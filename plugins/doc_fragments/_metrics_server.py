# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""The options of modules that read the series of a cluster."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  url:
    description:
      - Address of the server, before C(/api/v1).
    type: str
  token:
    description:
      - Bearer token for the server. It is only sent by C(https), or to the host itself.
    type: str
  org_id:
    description:
      - Tenant of a Mimir or Cortex whose series are read, which the server takes from the header C(X-Scope-OrgID).
    type: str
  labels:
    description:
      - Labels by which a server for several clusters knows the series of this one. Only series with all of them are read.
    type: dict
    default: {}
  ca:
    description:
      - PEM certificates of the authority of the server's certificate. Those of the system are used otherwise.
    type: str
  proxy:
    description:
      - Proxy, C(http://) or C(https://), on the way to the server.
    type: str
"""
