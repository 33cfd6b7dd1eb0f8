# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is known of vCluster's own snapshots, from which backups of tenants are made."""

from __future__ import annotations

from .._common.names import KAI_NAMESPACE

# Of the record that stands beside an archive; another one is refused.
FORMAT = 1
# Bytes of an archive. A control plane with 10,000 objects has an archive of some MB.
LARGEST = 2 * 2**30

# The container of the control plane, and the program in it whose subcommands take and restore snapshots (cmd/vcluster/cmd/snapshot).
CONTAINER, PROGRAM = "syncer", "/vcluster"
# The environment variable by which the program is told where the archive stands: base64 of JSON (pkg/constants, pkg/snapshot/options.go).
OPTIONS = "VCLUSTER_STORAGE_OPTIONS"
# The request that the program creates for the control plane: a ConfigMap with JSON under this key, and a Secret of the same name
# (loft-sh/api, pkg/snapshot/constants.go).
REQUEST_KEY = "snapshotRequest"
# How a request ended (loft-sh/api, pkg/snapshot/request.go); every other phase is on its way there.
COMPLETED, UNSUCCESSFUL = "Completed", ("Failed", "PartiallyFailed", "Canceled")

# Where the archive stands on the volume of the control plane, until it was brought away or restored.
ARCHIVE = "/data/kubegpu-backup.tar.gz"
# What a restore keeps of the former database beside the new one (pkg/snapshot/restoreclient.go, backupFile).
FORMER_DATABASE = "/data/state.db*.backup"

# The pod that restores an archive in place of the control plane, and the most seconds that it lives.
RESTORE_POD, POD_SECONDS = "kubegpu-restore", 3600
# Seconds at least for that pod to end, also when time is up.
POD_END = 60

# What KAI Scheduler's binder has bound: one for a pod that was bound before keeps the pod from being bound again (seen with v0.13.1).
BIND_REQUEST = ("scheduling.run.ai/v1alpha2", "BindRequest")

# Namespaces in a virtual cluster of what it needs itself.
SERVICES = (KAI_NAMESPACE, "kube-system")

# Snapshots of volumes (kubernetes-csi/external-snapshotter, client/apis/volumesnapshot/v1/types.go), and which class is a driver's default one.
SNAPSHOTS = "snapshot.storage.k8s.io/v1"
SNAPSHOT, CONTENT, CLASS = "VolumeSnapshot", "VolumeSnapshotContent", "VolumeSnapshotClass"
DEFAULT_CLASS = "snapshot.storage.kubernetes.io/is-default-class"
# Labels of those in backups: of which tenant, by which run, and when the backup was made, as its files are named.
BACKUP_OF, BACKUP_RUN, BACKUP_AT = (f"kubegpu.tenancy/backup-{part}" for part in ("of", "run", "at"))
# Annotations by which the storage deletes a snapshot (kubernetes-csi/external-snapshotter, pkg/utils/util.go).
DELETED_BY = "snapshot.storage.kubernetes.io/deletion-secret"
# Annotation of a claim: the node on which a driver makes the volume. Without it, a claim may wait for its first pod (k8s.io/component-helpers).
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# Keys of labels and annotations by which a syncer knows a claim that it brought (loft-sh/vcluster, pkg/util/translate).
SYNCER_KEYS = "vcluster.loft.sh/"

# Seconds for one command in a container that moves no archive.
COMMAND_SECONDS = 60
# Minor versions of Kubernetes that a tenant's API server may be newer than the objects in a backup: it still reads what the minor version
# before it stored (kubernetes.io, version skew policy).
NEWER_KUBERNETES = 1
# ConfigMap in each namespace with the certificate authority of the API server (k8s.io/kubernetes, pkg/controller/certificates/rootcacertpublisher).
AUTHORITY_MAP = "kube-root-ca.crt"
