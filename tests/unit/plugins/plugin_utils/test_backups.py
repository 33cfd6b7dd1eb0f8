# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
from ansible.constants import DEFAULT_VAULT_IDENTITY
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecret
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import files
from ansible_collections.kubegpu.tenancy.plugins.module_utils._backup.facts import LARGEST
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _backups
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._backups import Kept, Store, listing
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._transfer import vault_of
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

NOW = datetime.datetime(2026, 11, 28, tzinfo=datetime.timezone.utc)


def record(hour, content=b"content", **more):
    return {
        "format": 1,
        "tenant": "web",
        "at": f"2026-11-27T{hour:02}:00:00+00:00",
        "version": "0.36.1",
        "kubernetes_version": "v1.35.4",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    } | more


def dated(year):
    return record(2, at=f"{year}-01-01T00:00:00+00:00")


def rewrite(kept, **changes):
    """Change the record of a backup; without a value, the key goes."""
    path = Path(kept.path.removesuffix(".tar.gz") + ".json")
    path.write_text(json.dumps({key: value for key, value in (kept.record | changes).items() if value is not None}))


def names(store):
    return sorted(os.listdir(store.folder))


def vault(*passwords):
    loader = DataLoader()
    loader.set_vault_secrets([(DEFAULT_VAULT_IDENTITY, VaultSecret(password)) for password in passwords])
    return vault_of(loader)


@pytest.fixture(name="store")
def _store(tmp_path, monkeypatch):
    monkeypatch.setattr(_backups, "utc_now", lambda: NOW)
    return Store(str(tmp_path / "backups"), "gpu1", "web")


def test_a_backup_is_kept_for_its_user_alone(store, tmp_path):
    kept = store.keep(record(2), b"content", None)
    folder = tmp_path / "backups/gpu1/web"
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "20261127T020000Z.tar.gz": 0o600,
        "20261127T020000Z.json": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (kept.record["cluster"], kept.record["encrypted"]) == ("gpu1", False)
    assert store.all() == [kept]
    assert store.load(kept, None) == b"content"


def test_what_arrived_otherwise_is_not_kept(store):
    with refuses("damaged-backup"):
        store.keep(record(2), b"another", None)
    assert store.all() == []


def test_the_newest_or_the_one_of_a_time_is_chosen(store):
    first, last = (store.keep(record(hour), b"content", None) for hour in (2, 3))
    assert store.choose("latest") == last
    assert store.choose("2026-11-27T02:00:00+00:00") == store.choose("20261127T020000Z") == first
    with refuses("no-backup"):
        store.choose("2026-11-26T02:00:00+00:00")


def test_half_of_a_backup_is_none(store):
    kept = store.keep(record(2), b"content", None)
    for name, text in (("20261127T030000Z.json", "{"), ("20261127T040000Z.json", json.dumps({"format": 2}))):
        with open(os.path.join(store.folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    # A record without an archive, and an archive without a record.
    later = store.keep(record(5), b"content", None)
    os.remove(later.path)
    with open(os.path.join(store.folder, "20261127T060000Z.tar.gz"), "wb") as file:
        file.write(b"half")
    assert store.all() == [kept]


@pytest.mark.parametrize(
    "changes",
    [
        {"file": "../../../../etc/passwd"},
        {"file": ".."},
        {"file": ""},
        {"file": "20261127T010000Z.tar.gz"},
        {"encrypted": None},
        {"encrypted": "no"},
        {"file_sha256": None},
        {"file_sha256": "zz"},
        {"size": 10**400},
        {"size": LARGEST + 1},
        {"volumes_left_out": 5},
        {"version": "abc"},
        {"version": ""},
        {"kubernetes_version": "v1"},
        {"at": "2026-11-27T03:00:00+00:00"},
    ],
)
def test_a_record_of_another_form_is_no_backup(store, changes):
    first = store.keep(record(1), b"content", None)
    rewrite(store.keep(record(2), b"content", None), **changes)
    assert store.all() == [first]
    assert store.load(store.choose("latest"), None) == b"content"
    assert listing({"web": store.all()})[0] == "web: 1 backup"


def test_no_text_of_a_record_controls_a_terminal(store):
    rewrite(store.keep(record(2), b"content", None), version="0.36.1\x1b[2J\n  2030 fake")
    assert listing({"web": store.all()}) == [
        "web: 1 backup",
        "  2026-11-27T02:00:00+00:00, 0.0 MB, vCluster 0.36.1 2030 fake, Kubernetes v1.35.4",
    ]


def test_what_a_restore_would_refuse_is_not_kept(store):
    with refuses("malformed-backup"):
        store.keep(record(2, kubernetes_version=None), b"content", None)
    assert not os.path.exists(store.folder)


def test_a_damaged_archive_is_named(store):
    kept = store.keep(record(2), b"content", None)
    with open(kept.path, "wb") as file:
        file.write(b"contenx")
    with refuses("damaged-backup"):
        store.load(kept, None)
    os.remove(kept.path)
    with refuses("no-backup"):
        store.load(kept, None)


def test_the_oldest_go_and_what_was_cut_off(store):
    kept = [store.keep(record(hour), b"content", None) for hour in range(1, 6)]
    with open(os.path.join(store.folder, "20261127T060000Z.tar.gz"), "wb") as file:
        file.write(b"half")
    assert store.prune(2, kept[4]) == [kept[2], kept[1], kept[0]]
    assert names(store) == [
        "20261127T040000Z.json",
        "20261127T040000Z.tar.gz",
        "20261127T050000Z.json",
        "20261127T050000Z.tar.gz",
    ]


def test_after_a_clock_was_wrong_the_new_backup_stays_and_is_the_latest(store):
    later, latest = (store.keep(dated(year), b"content", None) for year in (2040, 2041))
    made = store.keep(record(2), b"content", None)
    assert store.prune(2, made) == [later]
    assert store.all() == [made, latest]
    assert store.choose("latest") == made
    assert listing({"web": store.all()})[2].endswith("Kubernetes v1.35.4, dated in the future: restored only by its time")
    # The next one takes the place of a backup whose age is not known.
    assert store.prune(2, store.keep(record(3), b"content", None)) == [latest]


def test_a_backup_of_the_future_is_restored_only_by_its_time(store):
    kept = store.keep(dated(2040), b"content", None)
    with refuses("no-backup") as refused:
        store.choose("latest")
    assert refused.value.message.endswith(
        "Name one of these by its time: 2040-01-01T00:00:00+00:00, which is dated in the future."
    )
    assert store.choose("2040-01-01T00:00:00+00:00") == kept


def test_what_a_renewal_restores_stays(store):
    kept = [store.keep(record(hour), b"content", None) for hour in range(1, 4)]
    note = Path(store.folder).parent / "renewal.json"
    note.write_text(json.dumps({"authority": "a", "backups": {"web": kept[0].at, "ml": kept[1].at}}))
    assert store.prune(1, kept[2]) == [kept[1]]
    note.write_text("{")
    assert store.prune(1, kept[2]) == [kept[0]]


def test_files_of_others_stay(store):
    """As records of a newer collection, damaged ones, archives that people put there, and a directory."""
    kept = [store.keep(record(hour), b"content", None) for hour in range(1, 4)]
    rewrite(kept[0], format=2)
    Path(store.folder, "20261127T020000Z.json").write_text("{")
    Path(store.folder, "before-the-migration.tar.gz").write_text("mine")
    Path(store.folder, "20261127T090000Z.tar.gz").mkdir()
    Path(store.folder, "20261127T080000Z.tar.gz.vault").write_text("half")
    before = names(store)
    assert store.prune(1, kept[2]) == []
    assert names(store) == [name for name in before if not name.startswith("20261127T08")]


def test_another_record_of_an_archive_takes_it_from_nobody(store):
    first, last = (store.keep(record(hour), b"content", None) for hour in (1, 3))
    copy = last.record | {"at": "2026-11-27T02:00:00+00:00"}
    Path(store.folder, "20261127T020000Z.json").write_text(json.dumps(copy))
    assert store.prune(1, last) == [first]
    assert store.load(store.choose("latest"), None) == b"content"


def test_no_backup_takes_the_place_of_another_one(store):
    """As one of the same second, which is then cut off between its archive and its record."""
    first = store.keep(record(2, b"first"), b"first", None)
    for encrypt in (None, vault(b"password").encrypt):
        with refuses("backup-exists"):
            store.keep(record(2, b"second"), b"second", encrypt)
    assert store.load(first, None) == b"first"


def test_the_largest_backup_can_be_read_again(store, monkeypatch):
    bounds = []
    monkeypatch.setattr(files, "read_file", lambda _path, most: bounds.append(most))
    for size in (256_000, LARGEST):
        with refuses("no-backup"):
            store.load(Kept({"size": size}, "there"), None)
    largest = len(vault(b"password").encrypt(bytes(256_000)))
    assert bounds[0] >= largest
    assert bounds[1] >= 4.05 * LARGEST


def test_an_encrypted_backup_is_read_by_its_password_alone(store):
    kept = store.keep(record(2), b"content", vault(b"password").encrypt)
    with open(kept.path, "rb") as file:
        assert file.read().startswith(b"$ANSIBLE_VAULT;1.1;AES256")
    assert kept.path.endswith(".tar.gz.vault")
    assert store.load(kept, vault(b"other", b"password").decrypt) == b"content"
    with refuses("not-decrypted"):
        store.load(kept, vault(b"other").decrypt)


def test_without_a_password_nothing_is_encrypted():
    with refuses("no-vault-password"):
        vault()
