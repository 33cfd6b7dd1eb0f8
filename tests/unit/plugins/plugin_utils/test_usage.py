# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of usage: prices, CSV, lines and the page."""

from __future__ import annotations

import csv
import io

from ansible_collections.kubegpu.tenancy.plugins.filter.usage import usage_lines
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._usage import report, table
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._usage_page import page
from ansible_collections.kubegpu.tenancy.tests.unit.used import AT, DAYS, H100, L4, NOTHING, SETTINGS, USAGE, reported


def test_a_tenants_days_are_added_up_and_priced():
    (cluster,) = reported()["clusters"]
    ml, web = cluster["tenants"]
    assert (ml["promised"], ml["held"], ml["idle"], ml["price"], ml["cost"], ml["currency"]) == (
        144.0,
        140.5,
        5.5,
        2.5,
        351.25,
        "EUR",
    )
    assert (web["promised"], web["held"], web["price"], web["cost"], web["currency"]) == (None, 20.0, None, None, "")
    assert cluster["queues"] == [
        {"tenant": "ml", "queue": "ml/training", "promised": 96.0, "held": 80.0, "borrowed": 0.0, "idle": 16.0}
    ]
    assert cluster["notes"] == ["No series says what was promised to web.", "No price is known of NVIDIA-L4."]


def test_columns_of_csv_can_be_added_up():
    found = reported()
    rows = list(csv.DictReader(io.StringIO(table(found, "usage"))))
    assert [row["day"] for row in rows if row["tenant"] == "ml"] == list(DAYS)
    assert sum(float(row["held"]) for row in rows) == 160.5
    assert sum(float(row["cost"] or 0) for row in rows) == 351.25
    assert [row["promised"] for row in rows if row["tenant"] == "web"] == ["", ""]
    assert table(found, "usage-queues").splitlines()[:2] == [
        "cluster,tenant,queue,day,promised,held,borrowed,idle",
        "dc1,ml,ml/training,2026-10-01,48.0,40.0,0.0,8.0",
    ]
    assert table(found, "usage-cluster").splitlines()[1] == "dc1,2026-10-01,24.0,0.0,192.0,100.5,20.0,71.5"


def test_lines_say_what_was_not_measured():
    lines = usage_lines(reported())
    assert lines[0].split() == [
        *("tenant", "product", "promised", "held", "borrowed", "idle", "used", "unused", "use", "not", "measured", "cost"),
    ]
    assert lines[2].split() == ["ml", H100, "144", "140.5", "2", "5.5", "40", "0", "0", "351.25", "EUR"]
    assert lines[3].split() == ["web", L4, "-", "20", "-", "-", "0", "0", "0"]
    assert lines[5:] == [
        "From 2026-10-01T00:00:00Z to 2026-10-03T00:00:00Z, days of UTC, counted by kube-state-metrics.",
        "The cluster had 288 GPU-hours: tenants held 160.5, pods of no tenant 20, and 107.5 were free.",
        "Not measured: GPUs, 12 hours.",
        "No series says what was promised to web.",
        "No price is known of NVIDIA-L4.",
    ]


def test_a_cluster_that_was_not_read_stops_no_report():
    failed = {"_kubegpu": {"usage": SETTINGS}, "_kubegpu_usage_series": {"msg": "Reading measured: it is gone."}}
    refused = {"_kubegpu_plan": {"msg": "1 problem"}}
    found = reported(dc2=failed, dc3=refused, dc4={})
    assert [cluster["failure"] for cluster in found["clusters"]] == [
        "",
        "Reading measured: it is gone.",
        "1 problem",
        "it was not reached, see the output above",
    ]
    lines = usage_lines(found)
    assert lines[2].split()[:2] == ["dc1", "ml"]
    assert "FAILED dc2: Reading measured: it is gone." in lines
    assert "dc2: Reading measured: it is gone." in page(found)


def test_only_some_tenants():
    (cluster,) = reported(only=["web"])["clusters"]
    assert [row["tenant"] for row in cluster["tenants"]] == ["web"]
    assert (cluster["queues"], len(cluster["cluster_days"])) == ([], 2)


def test_the_page_has_a_bar_for_each_day_and_no_script():
    text = page(reported())
    assert "<h1>Tenants held 160.5 of 288 GPU-hours.</h1>" in text
    assert "<script" not in text
    assert "http" not in text
    for said in ("2026-10-01", "100.5 of 192", "60 of 96, not measured: 12 of 24 hours"):
        assert f"<span>{said}</span>" in text
    assert text.count('<span class="bar" aria-hidden="true">') == 2
    # Half of the second day, of which ml held 50 of 96 GPU-hours.
    assert '<i class="hue0 way0" style="left:0.0%;width:26.0%"></i>' in text
    assert '<i class="gap" style="left:50.0%;width:50.0%"></i>' in text
    assert "351.25" in text


def test_names_on_the_page_are_text():
    evil = [row | {"tenant": "<b>x</b>\x1b[2J"} for row in USAGE["tenants"]]
    found = report(
        {"dc1": {"_kubegpu": {"usage": SETTINGS}, "_kubegpu_usage_series": {"usage": USAGE | {"tenants": evil}}}}, ["dc1"], AT
    )
    assert "<b>" not in page(found)
    assert "\x1b" not in page(found) + "".join(usage_lines(found))


def test_many_tenants_share_a_colour():
    rows = [{"tenant": f"t{number}", "product": H100, "day": DAYS[0]} | NOTHING | {"held": 1.0 + number} for number in range(30)]
    usage = USAGE | {"tenants": rows}
    found = report({"dc1": {"_kubegpu": {"usage": SETTINGS}, "_kubegpu_usage_series": {"usage": usage}}}, ["dc1"], AT)
    assert "other tenants</li>" in page(found)
