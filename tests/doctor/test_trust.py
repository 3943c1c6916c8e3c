"""Faults of trust: settings that wait for it, files that changed, a list that cannot be read."""

from carrel.app import config
from carrel.app.trust import TrustStore
from carrel.doctor import trust
from tests.support.doctor import Ward

MOUNT = "[mounts.x]\ncommand = ['true']\n"


def test_a_project_file_that_is_not_trusted_is_noted_and_trusted_only_with_consent(ward: Ward) -> None:
    ward.write(ward.file, f"{MOUNT}[http]\nport = 1234\n")

    found = ward.one(trust.trust)

    assert found.message == (
        "not in effect from carrel.toml: [mounts.x] (it runs code); [http] port (it decides who may connect)"
    )
    assert found.repair is not None
    assert found.repair.needs_consent
    assert ward.find(trust.trust_changed) == []
    assert ward.fix(trust.trust) == []
    assert config.load(None, ward.environment).is_trusted


def test_a_trusted_file_that_changed_is_noted(ward: Ward) -> None:
    ward.write(ward.file, MOUNT)
    ward.fix(trust.trust)
    ward.write(ward.file, f"{MOUNT}# changed\n")

    assert ward.one(trust.trust_changed).message.startswith("carrel.toml has changed since you trusted it: ")
    assert ward.find(trust.trust) == []
    assert ward.fix(trust.trust_changed) == []


def test_a_list_of_trusted_files_that_cannot_be_read_is_moved_away(ward: Ward) -> None:
    path = ward.write(ward.state / "trust.json", "[")
    ward.write(ward.state / "trust.json.broken", "an earlier one")

    assert ward.one(trust.trust_store).state == "problem"
    assert ward.fix(trust.trust_store) == []
    assert TrustStore(ward.environment).all() == []
    assert path.with_name("trust.json.broken").read_text() == "an earlier one"
    assert path.with_name("trust.json.broken-2").read_text() == "["
