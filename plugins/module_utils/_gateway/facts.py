# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The gateway of a GPU host: what an inventory says of it, where its files are, and how HAProxy and Docker are used."""

from __future__ import annotations

from .._common.schema import Field, Fields

GATEWAY: Fields = {
    "address": Field(
        str, "IP address of the GPU host, to which the ports are bound. Never that of all interfaces.", required=True
    ),
    "allow": Field(list, "Networks that may connect, such as 10.20.0.0/16. Others are refused.", required=True),
    "host": Field(str, "Name of the host in the kubeconfigs. Your DNS has to resolve it. Default: the address.", ""),
    "cluster_api": Field(bool, "Whether the API server of the host cluster is reached, too.", False),
}

FOLDER = "/etc/kubegpu"
UNITS = "/etc/systemd/system"
RUNTIME = "/run"
# In front of a cluster's name: of its unit, and of the folder below RUNTIME.
PREFIX = "kubegpu-gateway-"
# Where the packages of Debian and of Enterprise Linux have it.
HAPROXY = "/usr/sbin/haproxy"

# A name of kubeadm's certificate for API servers (k8s.io/kubernetes, cmd/kubeadm/app/util/pkiutil, GetAPIServerAltNames); it does not name
# the gateway's address.
CLUSTER_NAME = "kubernetes"
# The names of sections in HAProxy's configuration.
CLUSTER_SECTION, TENANT_SECTION = "cluster", "tenant-"
# Connections to one API server, so that the clients of one tenant cannot use up those of the others.
MOST_CONNECTIONS = 512
# And to all of them: HAProxy's own choice follows from the host's limit of open files, which can be so high that it takes all memory.
MOST_CONNECTIONS_OF_ALL = 16 * MOST_CONNECTIONS
