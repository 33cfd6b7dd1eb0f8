# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this doc fragment is PRIVATE to the collection: it may change in any release.
"""Options of the modules that install a Helm chart; HELM_ARG_SPEC of module_utils/_adapters/helm.py is their other half."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  values:
    description:
      - Values for the chart, merged over those this module sets.
      - Digests of them are shown, also in diffs. A digest confirms a guess, so what is secret belongs in a Secret of Kubernetes that they name.
    type: dict
    default: {}
  chart_source:
    description:
      - Where the chart comes from. Empty means upstream's location.
      - Otherwise a folder that holds C(CHART-VERSION.tgz), such a file, the folder of an unpacked chart, or the prefix of an OCI
        registry such as V(oci://registry.example/charts).
      - A chart of another name or version than asked for is refused.
    type: str
    default: ""
  helm_binary:
    description:
      - The helm program, of Helm 3 or Helm 4. Both give the same release.
    type: str
    default: helm
requirements:
  - helm >= 3.14
notes:
  - Helm uses O(kubeconfig) and O(context) of the authentication options only.
"""
