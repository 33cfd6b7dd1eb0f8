# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What nvkind reports on standard error. Pure."""

from __future__ import annotations

import re

# Messages of nvkind at commit 24c190e (pkg/nvkind), and what they mean.
_ERRORS = (
    (
        "writing configmap: %!w(<nil>)",
        "nvkind loses the cause here: its ConfigMap default/nvkind-cluster-config could not be written to the new cluster",
    ),
    ("installing container toolkit on node", "nvkind installs NVIDIA's toolkit from the internet, which the node has to reach"),
    ("patching /proc/driver/nvidia on node", "nvkind gave up where it hides the GPUs of other nodes"),
)


def nvkind_error(stderr: str) -> str:
    """Return nvkind's error messages with their meaning, without the stacks that its logger prints."""
    messages = re.findall(r"^(?:ERROR:|F\d{4} .*?\] Error:) (.+)$", stderr, re.MULTILINE)
    messages = messages or [line for line in stderr.splitlines() if line.strip()][-1:]
    meanings = [meaning for message, meaning in _ERRORS if message in stderr]
    return "; ".join(messages) + "".join(f" ({meaning})" for meaning in meanings)
