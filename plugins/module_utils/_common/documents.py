# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""YAML documents from Helm and Kubernetes, read by the parser in C where PyYAML has it, which takes an eighth of the time."""

from __future__ import annotations

import typing as t

try:
    import yaml
except ImportError:
    # AnsibleK8SModule reports the missing library before anything here is called.
    pass


def load_documents(text: str | bytes) -> list[t.Any]:
    """Return all documents in a text, as plain data.

    :raises yaml.YAMLError: where it is no YAML.
    """
    # As safe as yaml.safe_load_all, whichever of the two it is.
    return list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def load_document(text: str | bytes) -> t.Any:
    """Return the first document in a text; None where there is none."""
    return next(iter(load_documents(text)), None)
