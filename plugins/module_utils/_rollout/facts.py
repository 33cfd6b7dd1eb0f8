# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What a rollout is made of: the schema of its variable, the states of a cluster in it, and which waits of pods speak against it."""

from __future__ import annotations

import re

from .._common.schema import Field, Fields

# It names files, too.
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
FORMAT = 1

WAVE: Fields = {
    "hosts": Field(str, "Groups or inventory hosts of the wave, separated by commas."),
    "percent": Field(
        int,
        "In place of hosts: clusters that no wave names, until the waves so far hold this part of all clusters. 100: all the others.",
    ),
    "at_once": Field(int, "Clusters that are changed at once. 0: all of the wave.", 0),
}
CONTENT: Fields = {
    "name": Field(str, "Its name, such as kai-0.16.8. The record of the rollout has this name.", required=True),
    "waves": Field(list, "The waves, in their order. Each cluster is in exactly one.", required=True, fields=WAVE),
    "soak": Field(
        str, "How long a wave is observed before the next one begins, such as 30m, 2h or 1d. Empty: it is checked once.", "30m"
    ),
    "back_to": Field(
        str,
        "Blueprint to which a cluster goes back if its change fails. Empty: it stays as it is.",
        "",
    ),
    "stop_when": Field(
        list,
        "Alerts that stop it if they fire on a cluster and did not before its change. []: none. Left out: alerts of schedulers (docs/how-to/many-clusters.md).",
    ),
    "folder": Field(str, "Folder on the controller for the record, logs and evidence of rollouts.", "~/kubegpu-rollouts"),
}

# Seconds between two checks of a wave that is observed.
EVERY = 300

# States of a cluster: it is to be changed; it is being changed; it was changed and verified; it was observed as well, or had nothing to change;
# something failed; it was brought back; that failed, too.
WAITING, CHANGING, CHANGED, DONE, FAILED, BACK, STUCK = (
    *("waiting", "changing", "changed", "done"),
    *("failed", "went back", "did not go back"),
)
# How each is told.
IN_WORDS = {
    WAITING: "not changed",
    CHANGING: "not verified, because the run ended in the middle",
    CHANGED: "changed and verified, not observed to the end",
    DONE: "as the inventory says",
    FAILED: "failed",
    BACK: "failed, and went back",
    STUCK: "failed, and did not go back",
}

# Alerts of roles/monitoring/files/kubegpu.rules.yml that a change of schedulers can be the cause of.
STOP_WHEN = (
    *(
        "KubegpuGpuHeldTwice",
        "KubegpuReservationLost",
        "KubegpuQueueStarved",
        "KubegpuSchedulerStandsStill",
        "KubegpuSchedulerSlow",
    ),
    *("KubegpuSchedulerNotRead", "KubegpuSchedulerMissing", "KubegpuSchedulerUnauthorized", "KubegpuWebhookSilent"),
)

# The others of these rules, by which a name that begins like them is known to be none.
OTHER_ALERTS = (
    *("KubegpuUsageNotMeasured", "KubegpuGpusUnused", "KubegpuClusterDiffers", "KubegpuClusterWaits", "KubegpuEvidenceOld"),
    *("KubegpuBackupOld", "KubegpuKubeconfigExpires", "KubegpuSupportEnds"),
)

# Reasons for which a pod waits or is refused, of module kai_pending_info, that a change of schedulers can be the cause of. For others, such as a
# full queue or a wrong image, pods wait under any release.
FAULTS = frozenset(
    {
        *(
            "no_scheduler",
            "scheduler_down",
            "scheduler_error",
            "no_pod_group",
            "no_queue",
            "queue_missing",
            "queue_without_parent",
        ),
        *("parent_queue", "queue_level", "node_pool", "fraction", "binding", "reservation", "config_map", "mig_leftover"),
        *("not_synced", "not_written_back", "refused", "webhook", "policy"),
    }
)
