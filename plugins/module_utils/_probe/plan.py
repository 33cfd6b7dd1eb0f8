# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Pods that every trust profile accepts."""

from __future__ import annotations

from .._common.pods import pod_spec
from .._common.values import JsonObject

# Of pods that need a shell, a web server and its client, but no GPU.
IMAGE = "docker.io/library/busybox:1.37.0"


def page_spec(image: str, page: str, port: int) -> JsonObject:
    """Return the spec of a pod that serves a page and is ready when it does."""
    return pod_spec(
        image,
        f"echo {page} > /page/index.html && exec httpd -f -p {port} -h /page",
        ports=[{"containerPort": port}],
        readinessProbe={"httpGet": {"path": "/", "port": port}, "periodSeconds": 1},
        volumeMounts=[{"name": "page", "mountPath": "/page"}],
    ) | {"volumes": [{"name": "page", "emptyDir": {}}]}
