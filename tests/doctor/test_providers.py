"""Faults of providers: wanted ones that have no data, mounts that hang, objects that do not import."""

import sys
from threading import Event
from types import SimpleNamespace

import pytest

from carrel.app import registration
from carrel.core.errors import ProviderError
from carrel.doctor import providers, settings
from carrel.doctor.checks import Check
from carrel.providers.objects import ObjectProvider
from tests.support.doctor import Ward
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize("check", providers.CHECKS, ids=lambda one: one.id)
def test_a_sound_project_has_no_faults(ward: Ward, check: Check) -> None:
    ward.write(ward.project / "a.md", "# A\n")

    assert ward.find(check) == []


def test_a_provider_whose_list_fails_is_a_problem(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ProviderError("The disk is on fire")

    monkeypatch.setattr("carrel.providers.workspace.provider.Workspace.entries", fails)

    assert ward.one(providers.provider).message == "workspace: The disk is on fire"


def test_a_provider_that_is_wanted_and_has_no_data_is_a_problem_with_the_reason(ward: Ward) -> None:
    ward.write(ward.file, "[server]\nonly = ['sage']\n")

    found = ward.one(providers.provider_data)
    assert (found.state, found.message) == (
        "problem",
        f"sage is asked for by {ward.file}, but this folder has no .sage",
    )


def test_a_provider_whose_data_is_in_a_subfolder_is_named_with_the_command(ward: Ward) -> None:
    (ward.project / "app/.sage").mkdir(parents=True)
    ward.write(ward.file, "[sage]\ntools = 'read'\n")

    found = ward.one(providers.provider_data)
    assert found.state == "note"
    assert found.message.endswith("but this folder has no .sage; app/.sage (memory) exists")
    assert found.fix == "carrel serve --project app"


def test_a_provider_whose_data_is_in_the_working_folder_and_not_in_the_project_is_named(ward: Ward) -> None:
    (ward.project / ".sage").mkdir()
    ward.environment |= {"CLAUDE_PROJECT_DIR": str(ward.bin), "CARREL_SERVER_ONLY": "sage"}

    found = ward.one(providers.provider_data)
    assert found.message == (
        "sage is asked for by CARREL_SERVER_ONLY, but this folder has no .sage: "
        f"the project is {ward.bin}, not the working folder, which has one"
    )
    assert found.fix == "carrel serve --project ."


def test_a_provider_whose_place_does_not_exist_is_named(ward: Ward) -> None:
    ward.write(ward.file, "[sage]\ndir = 'memory'\n")

    assert ward.one(providers.provider_data).message.endswith("but its [sage] dir, memory, does not exist")


def test_a_flutter_project_without_flutter_is_noted(ward: Ward) -> None:
    ward.environment["PATH"] = str(ward.bin)
    ward.write(ward.project / "pubspec.yaml", "name: app\n")

    found = ward.one(providers.flutter)
    assert (found.state, "there is no flutter on PATH" in found.message) == ("note", True)
    ward.write(ward.user_file, "[flutter]\nexecutable = '/no/such/flutter'\n")
    assert ward.one(providers.flutter).state == "problem"
    ward.write(ward.bin / "flutter", "#!/bin/sh\n", 0o755)
    ward.user_file.unlink()
    assert ward.find(providers.flutter) == []


def test_a_home_of_algocline_that_does_not_exist_is_a_problem(ward: Ward) -> None:
    ward.environment["ALC_HOME"] = str(ward.home / "gone")
    ward.environment["ALC_LOG_DIR"] = str(ward.home / "logs")

    home, logs = ward.find(providers.alc_home)
    assert (home.state, home.message) == (
        "problem",
        "ALC_HOME points to ~/gone, which is not a folder: its data is not served",
    )
    assert (logs.state, logs.message) == ("note", "ALC_LOG_DIR points to ~/logs, which is not a folder")


def test_a_mount_whose_program_is_missing_is_a_problem(ward: Ward) -> None:
    ward.write(ward.user_file, "[mounts.x]\ncommand = ['no-such-program']\n")

    assert ward.one(providers.mount_program).message == "[mounts.x]: there is no program no-such-program on PATH"
    assert "the mount is down" in ward.one(providers.mount_answer).message
    assert ward.find(providers.provider) == []


def test_a_bucket_that_cannot_be_reached_is_a_problem_with_what_to_check(ward: Ward) -> None:
    ward.write(
        ward.user_file,
        "[workspace.roots]\ndocs = 's3://team'\n[buckets.docs]\nendpoint = 'http://127.0.0.1:1'\nanonymous = true\n",
    )

    found = ward.one(providers.bucket_answer)
    assert found.message == "workspace@docs: the bucket is not available: it cannot be reached"
    assert found.fix == "check [workspace.roots] docs, [buckets.docs] and the credentials in the environment"
    assert ward.find(providers.provider) == ward.find(providers.provider_files) == []


def test_a_mount_that_needs_a_variable_is_a_problem(ward: Ward) -> None:
    ward.write(ward.user_file, "[mounts.x]\ncommand = ['true']\nenv = { KEY = '${NO_SUCH_KEY}' }\n")

    assert "needs NO_SUCH_KEY, which is not set" in ward.one(providers.mount_variable).message
    assert ward.find(settings.settings_values) == []


def test_a_mount_that_never_answers_holds_nothing_else(ward: Ward) -> None:
    ward.write(ward.user_file, "[mounts.x]\ncommand = ['/bin/sleep', '600']\n")
    ward.write(ward.project / "a.md", "# A\n")
    ward.patience_s = 0.1
    setup = ward.setup()
    try:
        [hanging] = providers.mount_answer.find(setup)
        others = {one.message.partition(":")[0]: one.state for one in providers.provider.find(setup)}
    finally:
        setup.close()

    assert hanging.message == "x: the mount does not answer within 0.1 s"
    assert others == dict.fromkeys(registration.names(), "ok")


def test_an_object_that_does_not_import_is_a_problem(ward: Ward) -> None:
    ward.write(ward.user_file, "[objects.x]\nimport = 'no_such_module:thing'\n")

    found = ward.one(providers.object_import)
    assert found.state == "problem"
    assert found.message.startswith("x: the object no_such_module:thing is not served: ")


def test_an_object_that_raises_while_it_is_imported_is_a_problem(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    ward.write(ward.home / "lib/broken_by_test.py", "1 / 0\n")
    ward.write(ward.user_file, "[objects.x]\nimport = 'broken_by_test:thing'\n")
    monkeypatch.syspath_prepend(str(ward.home / "lib"))
    try:
        assert "ZeroDivisionError" in ward.one(providers.object_import).message
    finally:
        sys.modules.pop("broken_by_test", None)


UNLISTED = """
import gate
from carrel import Provider, Route

gate.asked.wait(60)

class Unlisted(Provider):
    name, schemes = "x", ("x",)

    def routes(self):
        return [Route("x://{name}", self.read)]

    def read(self, name):
        return name

    def entries(self, after=""):
        raise PermissionError("/srv/secret")
"""


def test_an_object_that_is_a_provider_is_a_problem_if_its_list_fails(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = SimpleNamespace(asked=Event())
    monkeypatch.setitem(sys.modules, "gate", gate)
    ward.write(ward.home / "lib/unlisted_by_test.py", UNLISTED)
    ward.write(ward.user_file, "[objects.x]\nimport = 'unlisted_by_test:Unlisted'\nstart_timeout_s = 60\n")
    monkeypatch.syspath_prepend(str(ward.home / "lib"))
    wait = ObjectProvider.wait

    def wait_from_now_on(provider: ObjectProvider, timeout_s: float) -> bool:
        if timeout_s > 0:  # the doctor asks, while it loads
            gate.asked.set()
        return wait(provider, timeout_s)

    monkeypatch.setattr(ObjectProvider, "wait", wait_from_now_on)
    ward.patience_s = PATIENCE_S

    found = {one.message: one.state for one in ward.find(providers.provider)}
    assert found["x: Internal error"] == "problem"


CLASHING = """
from carrel import Resource

class One:
    def capabilities(self):
        return ["resources"]

    def resources(self):
        return [Resource("logs://run/1", "One")]

    def resource_read(self, uri, arguments):
        return "1"
"""


def test_two_providers_with_the_same_resource_are_a_problem(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    ward.write(ward.home / "lib/clashing_by_test.py", CLASHING)
    ward.write(ward.user_file, "[objects.x]\nimport = 'clashing_by_test:One'\nstart_timeout_s = 60\n")
    monkeypatch.syspath_prepend(str(ward.home / "lib"))

    assert ward.one(providers.clash).message.startswith("both logs and x define logs://run/1")
    assert ward.find(settings.settings_values) == []


def test_a_file_that_does_not_fit_into_a_message_is_noted_and_the_limit_raised(ward: Ward) -> None:
    ward.write(ward.project / "large.txt", "x" * 3_000_000)

    found = ward.one(providers.message_limit)
    assert found.message == "workspace:///large.txt has 2.9 MB, and a message at most 2.0: it is read in parts"
    assert found.fix == "carrel config set --user server.max_message_mb 5"
    assert ward.fix(providers.message_limit) == []
    assert ward.user_file.read_text() == "[server]\nmax_message_mb = 5\n"


def test_a_file_that_no_message_should_hold_is_noted_without_a_repair(ward: Ward) -> None:
    with (ward.project / "huge.md").open("wb") as file:
        file.truncate(50 << 20)

    assert ward.one(providers.message_limit).repair is None


def test_memory_that_cannot_be_read_is_noted(ward: Ward) -> None:
    ward.write(ward.project / ".sage/system/a b.md", "# Odd\n")

    found = ward.find(providers.provider_files)
    assert [(one.state, one.message) for one in found] == [
        ("note", "sage: .sage/system/a b.md: no URI can have this name")
    ]


def test_files_that_a_preset_leaves_out_are_noted(ward: Ward) -> None:
    ward.write(ward.project / "pubspec.yaml", "name: app\n")
    ward.write(ward.project / "README.md", "# A\n")
    ward.write(ward.file, "[workspace]\npreset = 'flutter'\n")

    [found] = ward.find(providers.left_out)
    assert found.message.startswith("workspace: ")


def test_a_database_of_scopes_that_is_damaged_is_moved_away(ward: Ward) -> None:
    path = ward.write(ward.project / ".carrel/scopes.db", "no database at all, but long enough to be one" * 100)

    assert ward.one(providers.scopes_database).state == "problem"
    assert ward.fix(providers.scopes_database) == []
    assert [one.name for one in path.parent.iterdir() if "broken" in one.name] == ["scopes.db.broken"]
