#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenant_backup."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenant_backup
short_description: Take backups of tenants
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Has the control plane of each tenant make a snapshot, by vCluster's own program, and keeps that in a folder on the controller. Several
    tenants are worked on at once. A tenant that fails does not stop the others.
  - A backup is an archive with all objects of the virtual cluster, such as Deployments, Secrets and the queues of its KAI Scheduler, and
    beside it a record with its checksum. The record is written last, so that what a run left half done is no backup.
  - Where the storage of the tenant's volumes has a VolumeSnapshotClass, a snapshot of each volume belongs to the backup. It stays on the
    cluster, also if the tenant's namespace goes. Once the backup is deleted, the tenant's next backup deletes it. The record names the other
    volumes, whose data are not in the backup.
  - The tenant keeps running meanwhile. A paused tenant has no control plane that could make a snapshot, and fails.
options:
  tenants:
    description:
      - Names of the tenants.
    type: list
    elements: str
    required: true
  folder:
    description:
      - Folder on the controller. It gets a folder for each cluster, and in that one for each tenant.
      - The user that runs Ansible alone can read what is in it.
    type: path
    required: true
  cluster:
    description:
      - Name of the cluster's folder. It defaults to the inventory host.
    type: str
  keep:
    description:
      - How many backups to keep of each tenant. Older ones are deleted, once a new one is whole.
    type: int
    default: 7
  encrypt:
    description:
      - Whether to encrypt the archives by the vault password that the run was given, in the format of C(ansible-vault). The record beside
        an archive is not encrypted. It holds names and sizes of volumes, and no other content of any object.
    type: bool
    default: false
  path:
    description:
      - Folder on the host for the archives on their way. The task makes it, and removes it at its end.
    type: path
  run:
    description:
      - Identifier of this run, which its snapshots of volumes carry as a label. The task makes one.
    type: str
    default: ""
  forget:
    description:
      - Runs whose snapshots of volumes belong to no backup any more and are deleted, by the tenant's name. The task reads them from O(folder).
    type: dict
    default: {}
  timeout:
    description:
      - Seconds for each tenant.
    type: int
    default: 600
requirements:
  - kubernetes >= 24.2.0
  - C(sh), C(base64), C(sha256sum) and C(wc) in the image of the control plane, which upstream's has
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - kubegpu.tenancy._attributes
  - kubegpu.tenancy._progress
attributes:
  idempotent:
    support: none
    details: Each run takes another backup.
seealso:
  - module: kubegpu.tenancy.tenant_restore
"""

EXAMPLES = r"""
- name: Take a backup of two tenants, and keep the last fourteen of each
  kubegpu.tenancy.tenant_backup:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    tenants: [team-ml, web]
    folder: /var/backups/kubegpu
    keep: 14
    encrypt: true
"""

RETURN = r"""
backups:
  description: The backups that were made and are whole, one for each tenant that did not fail.
  returned: always, unless in check mode
  type: list
  elements: dict
  contains:
    tenant:
      description: Name of the tenant.
      type: str
      returned: always
    at:
      description: When it was made, in UTC.
      type: str
      returned: always
    path:
      description: The archive on the controller.
      type: str
      returned: always
    size:
      description: Bytes of the snapshot.
      type: int
      returned: always
    sha256:
      description: Checksum of the snapshot, before it was encrypted.
      type: str
      returned: always
    encrypted:
      description: Whether the archive is encrypted.
      type: bool
      returned: always
    version:
      description: Version of vCluster.
      type: str
      returned: always
    kubernetes_version:
      description: Version of the virtual cluster's Kubernetes.
      type: str
      returned: always
    objects:
      description: How many objects of each resource it holds.
      type: dict
      returned: always
    volumes:
      description: The snapshots of the tenant's volumes that belong to it.
      type: list
      elements: dict
      returned: always
      contains:
        driver:
          description: Name of the CSI driver.
          type: str
          returned: always
        handle:
          description: How the storage names the snapshot.
          type: str
          returned: always
        volume:
          description: Name of the PersistentVolume.
          type: str
          returned: always
        claim:
          description: What is needed to make the PersistentVolumeClaim anew, with C(name), C(labels), C(annotations) and C(spec).
          type: dict
          returned: always
    run:
      description: Identifier of the run that made the snapshots of volumes.
      type: str
      returned: when there are some
    volumes_left_out:
      description: The tenant's own PersistentVolumeClaims, by their names on the host cluster, whose data are not in it.
      type: list
      elements: str
      returned: always
  sample:
    - tenant: team-ml
      at: "2026-11-27T02:00:00+00:00"
      path: /var/backups/kubegpu/gpu1/team-ml/20261127T020000Z.tar.gz
      size: 1093342
      sha256: 0d1e2b7f7c3a5f0f2f6f4b1b8a9c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e
      encrypted: false
      version: 0.36.1
      kubernetes_version: v1.35.4
      objects: {deployments: 3, secrets: 14}
      volumes: []
      volumes_left_out: []
unsaved:
  description: Names of the tenants that exist, or may exist, and got no backup.
  returned: always, unless in check mode
  type: list
  elements: str
  sample: [team-research]
listing:
  description: Lines that list the backups that are kept of each tenant.
  returned: always
  type: list
  elements: str
  sample:
    - "team-ml: 1 backup"
    - "  2026-11-27T02:00:00+00:00, 1.1 MB, vCluster 0.36.1, Kubernetes v1.35.4"
tenants:
  description: What was done for each tenant.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the tenant.
      type: str
      returned: always
    forgotten:
      description: The runs of O(forget) whose snapshots of its volumes are deleted.
      type: list
      elements: str
      returned: always
    leaves_snapshots:
      description: Whether snapshots of its volumes are left, which the next backup deletes.
      type: bool
      returned: when it failed
    problems:
      description: Why there is no backup of it, each with C(code) and C(text).
      type: list
      elements: dict
      returned: when it failed
    steps:
      description: What was done, or would be in check mode, in that order, and why.
      type: list
      elements: dict
      returned: when there is a change
      contains:
        step:
          description: What is done.
          type: str
          returned: always
        why:
          description: The reason.
          type: str
          returned: always
        seconds:
          description: How long it took.
          type: float
          returned: when it was done
    seconds:
      description: How long all of it took.
      type: float
      returned: always
"""

from ..module_utils._engine.tenant_backup import ARGUMENT_SPEC, LEAST, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC, least=LEAST)


if __name__ == "__main__":
    main()
