# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Where KAI Scheduler and DCGM exporter serve metrics, and how a Prometheus and a Grafana find what is for them."""

from __future__ import annotations

from .._common.schema import Field, Fields

# Every program of KAI Scheduler serves them, v0.7 to v0.17 (kai-scheduler/KAI-Scheduler, cmd/*/app/options.go: metrics-bind-address,
# metrics-listen-address and listen-address).
KAI_PORT = 8080
LAST_PORT = 65535
# The GPU operator's DaemonSet and Service (NVIDIA/gpu-operator, assets/state-dcgm-exporter, v26.7.0).
DCGM_PORT, DCGM_LABELS = 9400, {"app": "nvidia-dcgm-exporter"}
PATH = "/metrics"

# How the Prometheus finds what it scrapes: by annotations of Services, as the job kubernetes-service-endpoints of the chart prometheus
# does (prometheus-community/helm-charts), or by an object of the Prometheus operator.
PROVIDERS = ANNOTATIONS, SERVICE_MONITORS = ("annotations", "service_monitor")
NOTES = {"prometheus.io/scrape": "true", "prometheus.io/port": str(KAI_PORT), "prometheus.io/path": PATH}

SERVICE = ("v1", "Service")
NETWORK_POLICY = ("networking.k8s.io/v1", "NetworkPolicy")
SERVICE_MONITOR = ("monitoring.coreos.com/v1", "ServiceMonitor")
# In this order they are made: nothing is announced before it is fenced.
KINDS = (NETWORK_POLICY, SERVICE, SERVICE_MONITOR)
CONFIG_MAP = ("v1", "ConfigMap")
PROMETHEUS_RULE = ("monitoring.coreos.com/v1", "PrometheusRule")

# Name of the objects, and the label by which they are found again, with what it is about as its value.
NAME = "kubegpu-metrics"
LABEL = "kubegpu.tenancy/metrics"
KAI, SHARED, DCGM, RULES = "kai", "shared-kai", "dcgm", "rules"
# Names of the rules and the dashboard, and of its file.
RULES_NAME, DASHBOARD_NAME, DASHBOARD_FILE = "kubegpu", "kubegpu-dashboard", "kubegpu.json"
# By it, the sidecar of the chart grafana finds dashboards (grafana-community/helm-charts, charts/grafana/values.yaml: sidecar.dashboards.label
# and labelValue, which the chart kube-prometheus-stack sets to "1").
DASHBOARD_LABEL = {"grafana_dashboard": "1"}
# Of a ServiceMonitor's endpoint: its name in the Service.
PORT_NAME = "metrics"
# Of the ports of KAI Scheduler's own Services (kai-scheduler/KAI-Scheduler, pkg/operator/operands, v0.13.1: binder, queue_controller).
SHARED_PORT_NAMES = ("http-metrics", "metrics")
# Series of one scrape of one pod. A tenant administers the pods that are scraped; about a dozen series a queue are KAI Scheduler's.
SAMPLE_LIMIT = 50_000

# The series of alerts that fire, which a Prometheus and the rulers of Thanos and Mimir write (Prometheus, alerting rules).
FIRING = 'ALERTS{alertname!="",alertstate="firing"}'

# What an inventory says of the Prometheus.
READER: Fields = {
    "provider": Field(
        str,
        "How it finds metrics. annotations: of Services. service_monitor: objects of the Prometheus operator.",
        required=True,
        choices=PROVIDERS,
    ),
    "namespace": Field(str, "Its namespace, from which alone metrics are read.", required=True),
    "labels": Field(dict, "Labels by which it chooses ServiceMonitors and rules, such as release: kube-prometheus-stack.", {}),
}
