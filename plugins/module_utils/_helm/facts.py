# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is known about Helm: the states of a release, and how its objects are marked."""

from __future__ import annotations

# States that helm leaves behind when it is killed (helm status --help; the same in both majors).
UNFINISHED = frozenset({"pending-install", "pending-upgrade", "pending-rollback", "uninstalling"})
# Of these, the ones in which nothing of the release may exist yet, or any more.
INCOMPLETE = frozenset({"pending-install", "uninstalling"})
# Annotations by which an object is one of a release: its name, and its namespace (pkg/action/validate.go of helm/helm).
RELEASE_NOTES = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")
# Label of each of its objects (the same place).
MANAGED_BY_HELM = "app.kubernetes.io/managed-by=Helm"
