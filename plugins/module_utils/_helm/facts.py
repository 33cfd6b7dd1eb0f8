# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is known about Helm: the states of a release, and how Helm 3 and Helm 4 differ in what this collection uses."""

from __future__ import annotations

# Annotation of what helm makes at a certain moment only, and does not keep as part of the release.
HOOK = "helm.sh/hook"

# States that helm leaves behind when it is killed (helm status --help; the same in both majors).
UNFINISHED = frozenset({"pending-install", "pending-upgrade", "pending-rollback", "uninstalling"})
# Of these, the ones in which nothing of the release may exist yet, or any more.
INCOMPLETE = frozenset({"pending-install", "uninstalling"})

# How standard error ends where a release does not exist: "Error: release: not found" of `helm get`, "Error: uninstall: Release not
# loaded: NAME: release: not found" of `helm uninstall` (ErrReleaseNotFound in pkg/storage/driver/driver.go of both majors). The
# exit status is 1, as for every other error. `helm uninstall --ignore-not-found` is no help: it also hides that the records of
# the release could not be read, such as a missing permission (pkg/action/uninstall.go of v3.19.5 and v4.3.1).
NOT_FOUND = "release: not found"

# The majors of Helm that the collection works with, and the arguments that only one of them needs for `helm upgrade`. The same in
# both, with the same output: get metadata, get values, show, template, uninstall; --reset-values, --values -, --timeout (for each
# operation, hooks among them, not for the whole), --create-namespace, --no-hooks, --plain-http, --repo, --api-versions. Without
# --wait both wait for hooks only. `helm list --all`, --atomic and --force of Helm 3 are gone or deprecated in 4, and not used.
UPGRADE_ARGUMENTS: dict[int, tuple[str, ...]] = {
    3: (),
    # pkg/cmd/upgrade.go of v4: by default it applies on the server's side what Helm 4 installed, and fails with a conflict where
    # someone else set a field, which Helm 3 changes back (k3s-io/helm-controller#343). --force-conflicts is no way out: it is
    # refused for a release that Helm 3 upgraded last (crossplane-contrib/provider-helm#403).
    4: ("--server-side=false",),
}
