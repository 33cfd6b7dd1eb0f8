# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import os
import stat

import pytest
from ansible.constants import DEFAULT_VAULT_IDENTITY
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecret
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._backups import Store
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._transfer import vault_of
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses


def record(hour, content=b"content"):
    return {
        "format": 1,
        "tenant": "web",
        "at": f"2026-11-27T{hour:02}:00:00+00:00",
        "version": "0.36.1",
        "kubernetes_version": "v1.35.4",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def vault(*passwords):
    loader = DataLoader()
    loader.set_vault_secrets([(DEFAULT_VAULT_IDENTITY, VaultSecret(password)) for password in passwords])
    return vault_of(loader)


@pytest.fixture(name="store")
def _store(tmp_path):
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


def test_a_record_leads_to_no_other_folder(store):
    store.keep(record(2), b"content", None)
    path = os.path.join(store.folder, "20261127T020000Z.json")
    with open(path, encoding="utf-8") as file:
        changed = json.load(file) | {"file": "../../../../etc/passwd"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(changed, file)
    assert store.all() == []


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
    assert store.prune(2) == [kept[2], kept[1], kept[0]]
    assert sorted(os.listdir(store.folder)) == [
        "20261127T040000Z.json",
        "20261127T040000Z.tar.gz",
        "20261127T050000Z.json",
        "20261127T050000Z.tar.gz",
    ]


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
