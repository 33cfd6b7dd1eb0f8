# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names in the files that Flux, or kubectl and Helm, apply for tenants."""

from __future__ import annotations

from .._common.names import FLUX

# The first line of each file. A file without it is another author's, and stays as it is.
MARK = "# Written by kubegpu.tenancy.render, which replaces what is changed here."

# For whom the files are: Flux, by objects of its own, or kubectl and Helm.
FORMATS = FOR_FLUX, FOR_HELM = "flux", "helm"

# In the folder of a tenant: what lists the files for kubectl and Flux; the folder for the API server of the virtual cluster.
KUSTOMIZATION, INSIDE = "kustomization.yaml", "inside"
# Beside the namespace: the policies of the API server. The folder with their rules for Gatekeeper: templates, whose constraints follow in a
# folder of their own, and a text for readers.
POLICIES = "policies.yaml"
GATEKEEPER, TEMPLATES, CONSTRAINTS, README = "gatekeeper", "templates", "constraints", "README.md"
NOTE = """
The constraints have the rules of the policies in `../policies.yaml`. The API server enforces these policies. Gatekeeper reports, and refuses
nothing: its webhook admits by default what it does not answer.

1. `kubectl apply -k templates`
2. `kubectl apply -k constraints`, once Gatekeeper has made their kinds

Its audit judges an object as if it was created now. It does not know, and leaves out:

"""
# Files, or folders, with the Helm releases; Flux's objects have the same names.
VIRTUAL_CLUSTER, SCHEDULER = "virtual-cluster", "scheduler"
CHART_FILE, VALUES_FILE = "chart.yaml", "values.yaml"

# Flux removes none of the objects when their files go, and replaces no ${…} in them.
UNTOUCHED = {f"{FLUX}prune": "disabled", f"{FLUX}substitute": "disabled"}
HELM_RELEASE = ("helm.toolkit.fluxcd.io/v2", "HelmRelease")
HELM_REPOSITORY = ("source.toolkit.fluxcd.io/v1", "HelmRepository")
FLUX_KUSTOMIZATION = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
KUSTOMIZE = ("kustomize.config.k8s.io/v1beta1", "Kustomization")
# Key of the Secret in which vCluster keeps a kubeconfig (pkg/util/kubeconfig of vCluster).
KUBECONFIG_KEY = "config"
