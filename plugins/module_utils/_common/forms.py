# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Forms of names and labels as Kubernetes checks them: k8s.io/apimachinery, pkg/util/validation. Pure.

Each pattern is for a whole text. What does not fit is refused by the API server late, or means something else in a selector.
"""

from __future__ import annotations

import re
import typing as t

from .errors import Problem
from .schema import named, quoted

# IsValidLabelValue without the empty text; also the last part of a label's key.
LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
# IsDNS1123Label: namespaces.
NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
# IsDNS1123Subdomain, of any length: nodes, classes, and most other objects.
_DOTTED = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
SUBDOMAIN = rf"(?=.{{1,253}}$){_DOTTED}"

# IsQualifiedName: keys of labels, annotations and taints.
_KEY = re.compile(rf"((?=[^/]{{1,253}}/){_DOTTED}/)?{LABEL}")
_VALUE = re.compile(rf"({LABEL})?")
_NAMESPACE = re.compile(NAMESPACE)
_SUBDOMAIN = re.compile(SUBDOMAIN)


def is_key(text: t.Any) -> bool:
    """Tell whether a value can be the key of a label, an annotation or a taint."""
    return isinstance(text, str) and bool(_KEY.fullmatch(text))


def is_label_value(text: t.Any) -> bool:
    """Tell whether a value can be that of a label or of a taint; the empty text can."""
    return isinstance(text, str) and bool(_VALUE.fullmatch(text))


def is_namespace(text: t.Any) -> bool:
    """Tell whether a value can be the name of a namespace."""
    return isinstance(text, str) and bool(_NAMESPACE.fullmatch(text))


def is_object(text: t.Any) -> bool:
    """Tell whether a value can be the name of a node, of a class, or of most other objects."""
    return isinstance(text, str) and bool(_SUBDOMAIN.fullmatch(text))


def label_problems(labels: t.Mapping[t.Any, t.Any], path: str) -> t.Iterator[Problem]:
    """List what is wrong with labels, each with its path.

    :arg path: of the labels.
    """
    for key, value in labels.items():
        here = f"{path}.{named(key)}"
        if not is_key(key):
            yield Problem("not-a-label", f"{here}: is not the name of a label.")
        if not isinstance(value, str):
            hint = "; quote it" if isinstance(value, (int, float)) else ""
            yield Problem("wrong-type", f"{here}: must be a string, not {quoted(value)}{hint}.")
        elif not is_label_value(value):
            yield Problem("not-a-label-value", f"{here}: {quoted(value)} is not the value of a label.")
