#!/usr/bin/python
# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module kubegpu.tenancy.tenant_restore."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tenant_restore
short_description: Restore a tenant from a backup
version_added: 0.1.0
author: kubegpu.tenancy contributors (@kubegpu)
description:
  - Replaces all that is in a tenant's virtual cluster by what a backup of M(kubegpu.tenancy.tenant_backup) holds. What the tenant has made since
    goes. The virtual cluster has to exist; role P(kubegpu.tenancy.vcluster_tenant#role) makes one.
  - Ends the control plane and all pods of the tenant, has a pod in the control plane's place restore the database by vCluster's own program,
    and starts the control plane again, which makes the pods anew.
  - Volumes whose claims are gone get the data of the backup's snapshots back, if it has some.
  - If it fails before or while the database is restored, the former one is still there, and the tenant runs as before. A restore that is cut
    off leaves the tenant ended, and no other module starts it until it is restored again.
  - Checked before anything is ended are the archive's checksum, that it is whole, and that the versions fit. vCluster has to have the backup's
    minor version or a newer one, the virtual cluster's Kubernetes the backup's minor version or the next one.
options:
  name:
    description:
      - Name of the tenant to restore.
    type: str
    required: true
  folder:
    description:
      - Folder on the controller with the backups, as M(kubegpu.tenancy.tenant_backup) keeps them.
    type: path
    required: true
  cluster:
    description:
      - Name of the cluster's folder in O(folder). It defaults to the inventory host; a backup of another cluster is restored by its name.
    type: str
  tenant:
    description:
      - The tenant whose backup it is. It defaults to O(name).
    type: str
  backup:
    description:
      - Which backup, by when it was made. V(latest) is the newest one that is not dated in the future.
    type: str
    default: latest
  volumes:
    description:
      - Which volumes get the data of the backup's snapshots back. With V(missing), those whose claims are gone. With V(all), all of them;
        what they hold now is deleted.
    type: str
    choices: [missing, all]
    default: missing
  path:
    description:
      - File on the host for the archive on its way. It defaults to one in the task's own folder, which goes with the task.
    type: path
  record:
    description:
      - The record of the backup. It defaults to the one beside the archive.
    type: dict
  timeout:
    description:
      - Seconds for the whole restore.
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
    details: Each run restores the tenant again.
seealso:
  - module: kubegpu.tenancy.tenant_backup
"""

EXAMPLES = r"""
- name: Give a team back what it had last night
  kubegpu.tenancy.tenant_restore:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    name: team-ml
    folder: /var/backups/kubegpu

- name: Have the same beside it, as another tenant
  kubegpu.tenancy.tenant_restore:
    kubeconfig: /etc/kubegpu/kubegpu/cluster.yml
    name: team-ml-copy
    tenant: team-ml
    backup: "2026-11-27T02:00:00+00:00"
    folder: /var/backups/kubegpu
"""

RETURN = r"""
backup:
  description: The record of the backup, as M(kubegpu.tenancy.tenant_backup) returns it.
  returned: always
  type: dict
server:
  description: Address of the virtual cluster's API server.
  returned: when clients outside of the host cluster reach it
  type: str
  sample: https://172.18.0.3:30443
kubernetes_version:
  description: What that API server says of its version.
  returned: with RV(server)
  type: str
  sample: v1.35.4
steps:
  description: What was done, or would be in check mode, in that order, and why.
  returned: when there is a change
  type: list
  elements: dict
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
  sample:
    - step: end the control plane
      why: its database is replaced
      seconds: 6.2
seconds:
  description: How long all of it took.
  returned: success
  type: float
  sample: 41.7
"""

from ..module_utils._engine.tenant_restore import ARGUMENT_SPEC, reconcile
from ..module_utils._kernel.module import run_module


def main() -> None:
    run_module(reconcile, ARGUMENT_SPEC)


if __name__ == "__main__":
    main()
