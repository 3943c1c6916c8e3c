"""Mounts: another server's resources through Carrel, whatever that server is and does."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import pytest

from carrel.app import config
from carrel.app.app import Desk, open_desk
from carrel.catalog.access import Access, ActingAs
from carrel.catalog.catalog import Catalog
from carrel.catalog.watcher import Watcher
from carrel.cli.serve_http import is_own
from carrel.client.client import Client, EraName
from carrel.client.memory import Memory
from carrel.client.rpc import Transport
from carrel.core.errors import BadArgument, ConfigError, NotFound, ProviderError, RemoteError
from carrel.core.model import Reading, Resource, Text
from carrel.core.provider import Provider
from carrel.providers.guide import Guide
from carrel.providers.mounts import ListMemory, Mount, MountSettings
from carrel.providers.mounts import link as link_module
from carrel.providers.mounts.uri_mapping import Snapshot
from carrel.providers.objects import serve_object
from carrel.server.server import Server
from carrel.testing import ProviderContract
from tests.support.greenhouse import Greenhouse
from tests.support.greenhouse_contract import GreenhouseFacts
from tests.support.trusting import trust
from tests.support.waiting import PATIENCE_S, has_thread, until

ERAS: tuple[EraName, ...] = ("modern", "legacy")
NOT_FOUND = {"modern": -32602, "legacy": -32002}
SOURCES = Path(__file__).parents[3] / "src"
Answer = dict[str, Any] | None
Play = Callable[[str, dict[str, Any]], Any]


# A server in this process, mounted


class MountContract(GreenhouseFacts, ProviderContract):
    """A Carrel with a greenhouse, mounted in one era: everything passes through."""

    era: EraName = "modern"

    def provider(self) -> Provider:
        self.beds = {"north": 41.5, "south": 12.0}
        below = Catalog([serve_object(Greenhouse(self.beds), poll_s=0.05, list_ttl_s=0.0)])
        server = Server(below, Watcher(below, 0.05))
        mount = Below("mounted", MountSettings(["memory"], era=self.era, poll_s=0.05), lambda: Memory(server), below)
        mount.begin()
        assert mount.wait(PATIENCE_S)
        mount.wait_until_it_listens()
        return mount


class Below(Mount):
    """A mount that closes what it has mounted with itself."""

    def __init__(self, name: str, options: MountSettings, connect: Callable[[], Transport], below: Catalog) -> None:
        super().__init__(name, options, connect)
        self.below = below
        self.listens = threading.Event()

    def subscribed(self) -> tuple[str, ...]:
        self.listens.set()
        return super().subscribed()

    def wait_until_it_listens(self) -> None:
        """Wait for the thread that watches below: it is none of those on trial."""
        assert self.listens.wait(PATIENCE_S)
        until(lambda: has_thread("carrel-watch"))

    def close(self) -> None:
        super().close()
        self.below.close()


@pytest.mark.slow
class TestModernMount(MountContract):
    """By listening."""


@pytest.mark.slow
class TestLegacyMount(MountContract):
    """By the handshake, and subscriptions."""

    era = "legacy"


# A server that is played


class Refusal(NamedTuple):
    """An error as a Carrel gives it."""

    code: int
    word: str


class Played:
    """A transport whose other end answers as `play` says: a result, an error, or nothing."""

    def __init__(self, play: Play, era: EraName = "modern") -> None:
        self.play = play
        self.era = era
        self.asked: list[tuple[str, Any]] = []
        self._inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def send(self, message: bytes) -> None:
        request = json.loads(message)
        self.asked.append((request["method"], request.get("params", {})))
        if "id" not in request:
            return
        given = self._opening(request["method"]) or self.play(request["method"], request.get("params", {}))
        if isinstance(given, Refusal):
            data = {"dev.carrel/error": given.word}
            self.say({"id": request["id"], "error": {"code": given.code, "message": "its own words", "data": data}})
        elif isinstance(given, int):
            self.say({"id": request["id"], "error": {"code": given, "message": "its own words"}})
        elif given is not None:
            self.say({"id": request["id"], "result": given})

    def _opening(self, method: str) -> Any:
        declared = {"resources": {"subscribe": True}, "completions": {}}
        if method == "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": declared} if self.era == "modern" else -32601
        if method == "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": declared, "serverInfo": {"name": "played"}}
        return None

    def say(self, message: dict[str, Any]) -> None:
        self._inbox.put(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def receive(self) -> bytes | None:
        return self._inbox.get()

    def close(self) -> None:
        self._inbox.put(None)


ENTRY = {"uri": "played://a", "name": "a"}
LISTS: dict[str, Any] = {
    "resources/list": {"resources": [ENTRY]},
    "resources/templates/list": -32601,
    "subscriptions/listen": -32601,
    "resources/subscribe": -32601,
}


def playing(**answers: Any) -> Play:
    """Answer by the method's last word; the lists have one entry."""
    by_method = {**LISTS, **{name.replace("_", "/"): answer for name, answer in answers.items()}}

    def play(method: str, params: dict[str, Any]) -> Any:
        given = by_method.get(method, -32601)
        return given(params) if callable(given) else given

    return play


@contextlib.contextmanager
def mounted(
    transport: Transport | Callable[[], Transport], *others: Provider, name: str = "birds", **settings: Any
) -> Iterator[tuple[Mount, Client]]:
    connect = transport if callable(transport) else lambda: transport
    taken = frozenset(scheme for other in others for scheme in other.schemes)
    mount = Mount(name, MountSettings(["played"], **settings), connect, lambda: taken)
    catalog = Catalog([mount, *others])
    mount.begin()
    assert mount.wait(PATIENCE_S)
    with Client.to(Server(catalog, Watcher(catalog, 0.05))) as client:
        yield mount, client
    catalog.close()


def contents(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"contents": list(items), **more}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (-32002, (-32602, "Resource not found: played://a", "not_found")),
        (-32602, (-32602, "Resource not found: played://a", "not_found")),
        (-32601, (-32602, "Resource not found: played://a", "not_found")),
        (-32603, (-32603, "Mount failed: birds", "failed")),
        (-1, (-32603, "Mount failed: birds", "failed")),
        ({"contents": 5}, (-32603, "Mount failed: birds", "bad_result")),
        ({}, (-32603, "Mount failed: birds", "bad_result")),
        (contents({"uri": "played://a"}), (-32603, "Mount failed: birds", "bad_result")),
        (contents({"uri": "played://a", "blob": "!"}), (-32603, "Mount failed: birds", "bad_result")),
        (contents({"uri": "played://a", "text": "", "blob": ""}), (-32603, "Mount failed: birds", "bad_result")),
        (None, (-32603, "Mount timed out: birds", "timeout")),
        ({"resultType": "input_required"}, (-32603, "Mount is unavailable: birds", "unavailable")),
    ],
)
def test_what_the_server_does_wrong_is_reported_without_its_words(era: EraName, given: Any, told: Any) -> None:
    timeout_s = 0.2 if given is None else PATIENCE_S
    with mounted(Played(playing(resources_read=given), era), timeout_s=timeout_s) as (_, client):
        with pytest.raises(RemoteError) as caught:
            client.read("played://a")
        listed = [entry.uri for entry in client.page().entries]

    error = caught.value
    assert (error.code, error.message, error.data["dev.carrel/error"]) == told
    assert error.data["uri"] == "played://a"
    assert ("retryAfterMs" in error.data) == (error.word == "unavailable")
    assert listed == ["played://a"]


def test_a_request_past_its_time_is_cancelled() -> None:
    played = Played(playing(resources_read=None))
    with mounted(played, timeout_s=0.1) as (_, client), pytest.raises(RemoteError):
        client.read("played://a")

    assert "notifications/cancelled" in [method for method, _ in played.asked]


def test_an_answer_too_long_is_a_bad_result() -> None:
    below = Catalog([serve_object(Greenhouse({"n" * 3_000: 1.0}))])
    server = Server(below)
    with mounted(lambda: Memory(server), max_message_bytes=2_500) as (_, client), pytest.raises(RemoteError) as caught:
        client.read("greenhouse://house/summary")
    below.close()

    assert (caught.value.message, caught.value.word) == ("Mount failed: birds", "bad_result")


@pytest.mark.parametrize("uri", ["played://b", "played://"])
def test_empty_contents_are_not_found_unless_listed(uri: str) -> None:
    with mounted(Played(playing(resources_read=contents()))) as (mount, _):
        assert mount.read("played://a").items == ()
        with pytest.raises(NotFound):
            mount.read(uri)


def test_a_read_in_its_scheme_is_passed_on_even_if_unlisted() -> None:
    def read(params: dict[str, Any]) -> Any:
        return contents({"uri": params["uri"], "text": params["uri"]})

    played = Played(playing(resources_read=read))
    with mounted(played) as (_, client):
        [item] = client.read("played://elsewhere?x=1&start=1&length=3").items

    assert isinstance(item, Text)
    assert item.text == "lay"
    assert [params["uri"] for method, params in played.asked if method == "resources/read"] == [
        "played://elsewhere?x=1"
    ]


# Templates and completion

ODD = ("played://a/{x}{?q*}", "played://find?word={word}", "played://{y}{.kind}", "played://{a,b}/c", "played://fixed")


def test_templates_that_cannot_be_matched_here_are_listed_completed_and_read() -> None:
    asked: list[Any] = []

    def complete(params: dict[str, Any]) -> Any:
        asked.append((params["ref"]["uri"], params["argument"]["name"]))
        return {"completion": {"values": ["one"], "total": 1, "hasMore": False}}

    templates = {"resourceTemplates": [{"uriTemplate": text, "name": text} for text in (*ODD, "played://a/{z}")]}
    play = playing(
        resources_templates_list=templates,
        completion_complete=complete,
        resources_read=lambda params: contents({"uri": params["uri"], "text": params["uri"]}),
    )
    with mounted(Played(play), prefix=True) as (_, client):
        told = [template.uri_template for template in client.templates()]
        values = [client.complete(f"birds+{text}", "word", "o").values for text in ODD]
        texts = [
            text_of(client, f"birds+{uri}") for uri in ("played://a/1?q=2", "played://find?word=x", "played://y.txt")
        ]

    assert told == sorted(f"birds+{text}" for text in (*ODD, "played://a/{z}"))
    assert values == [("one",)] * len(ODD)
    assert asked == [(text, "word") for text in ODD]
    assert texts == ["played://a/1?q=2", "played://find?word=x", "played://y.txt"]


def test_a_completion_may_name_a_uri_instead_of_its_template() -> None:
    """Who names a listed URI has it passed on; one that a template matches means that template."""
    asked: list[Any] = []

    def complete(params: dict[str, Any]) -> Any:
        asked.append((params["ref"]["uri"], params["argument"]["name"]))
        return {"completion": {"values": []}}

    templates = {"resourceTemplates": [{"uriTemplate": "played://b/{x}", "name": "b"}]}
    play = playing(resources_templates_list=templates, completion_complete=complete)
    with mounted(Played(play)) as (_, client):
        client.complete("played://a", "anything", "")
        client.complete("played://b/1", "x", "")
        for reference, name in (("played://b/1", "y"), ("played://c/1", "x"), ("nobody://c", "x")):
            with pytest.raises(RemoteError) as caught:
                client.complete(reference, name, "")
            assert (caught.value.code, caught.value.word) == (-32602, "invalid")

    assert asked == [("played://a", "anything"), ("played://b/{x}", "x")]


def test_a_server_s_own_refusal_is_no_reason_to_leave_it() -> None:
    """A read that a mounted Carrel denies, or cannot give now, is a failed read and nothing else."""
    dialled: list[Played] = []

    def dial() -> Transport:
        dialled.append(Played(playing(resources_read=lambda params: Refusal(-32803, "denied"))))
        return dialled[-1]

    with mounted(dial) as (mount, client):
        for _ in range(2):
            with pytest.raises(RemoteError, match="Mount failed: birds") as caught:
                client.read("played://a")
            assert caught.value.word == "failed"
        assert mount.health()["restarts"] == 0

    assert len(dialled) == 1


# Prefixes


def test_a_mount_whose_scheme_is_taken_is_prefixed_as_a_whole() -> None:
    entries = [{"uri": "greenhouse://x", "name": "x"}, {"uri": "other://y", "name": "y"}]
    templates = {"resourceTemplates": [{"uriTemplate": "other://{z}{?q*}", "name": "z"}]}

    def read(params: dict[str, Any]) -> Any:
        items = [{"uri": params["uri"], "text": params["uri"]}, {"uri": "other://part", "text": "other://y"}]
        return contents(*items)

    play = playing(resources_list={"resources": entries}, resources_read=read, resources_templates_list=templates)
    house = serve_object(Greenhouse({}), "house")
    with mounted(Played(play), house) as (_, client):
        listed = [entry.uri for entry in client.resources()]
        told = [template.uri_template for template in client.templates()]
        items = client.read("BIRDS+other://y").items

    assert listed == [
        "birds+greenhouse://x",
        "birds+other://y",
        "greenhouse://house/badge",
        "greenhouse://house/summary",
    ]
    assert told == ["birds+other://{z}{?q*}", "greenhouse://house/beds/{bed}"]
    assert [(item.uri, item.text) for item in items if isinstance(item, Text)] == [
        ("BIRDS+other://y", "other://y"),
        ("birds+other://part", "other://y"),
    ]


def test_a_mount_that_may_not_be_prefixed_stays_down_with_the_reason() -> None:
    entries = {"resources": [{"uri": "carrel://x", "name": "x"}]}
    with mounted(Played(playing(resources_list=entries)), prefix=False) as (mount, client):
        assert mount.health()["problems"] == ["the mount is down: its scheme carrel: is taken, and prefix is false"]
        assert client.page().entries == ()


def test_a_prefix_can_be_asked_for_and_a_foreign_scheme_that_appears_later_is_left_out() -> None:
    with mounted(Played(playing()), prefix=True) as (_, client):
        assert [entry.uri for entry in client.page().entries] == ["birds+played://a"]
    entries = [ENTRY]
    house = serve_object(Greenhouse({}), "house")
    with mounted(Played(playing(resources_list=lambda _: {"resources": entries})), house) as (mount, _):
        entries.append({"uri": "greenhouse://x", "name": "x"})
        entries.append({"uri": "fresh://x", "name": "x"})
        assert [entry.uri for entry in mount.entries()] == ["fresh://x", "played://a"]


# Lists


def test_lists_are_taken_page_by_page_within_bounds_and_unsound_entries_are_dropped() -> None:
    def page(params: dict[str, Any]) -> Any:
        number = int(params.get("cursor", "0"))
        entries = [
            {"uri": f"played://{number}", "name": "n" * 10_000},
            {"uri": "relative", "name": "r"},
            {"uri": "x:y"},
        ]
        return {"resources": entries, "nextCursor": str((number + 1) % 5)}

    with mounted(Played(playing(resources_list=page))) as (mount, _):
        entries = list(mount.entries())
    with mounted(Played(playing(resources_list=page)), max_entries=2) as (small, _):
        few = [entry.uri for entry in small.entries()]

    assert [entry.uri for entry in entries] == [f"played://{number}" for number in range(5)]
    assert {len(entry.name) for entry in entries} == {4_096}
    assert few == ["played://0", "played://1"]


def test_a_number_no_priority_can_be_is_left_out() -> None:
    entries = [
        {"uri": f"played://{number}", "name": "n", "annotations": {"priority": priority}}
        for number, priority in enumerate([10**400, -1, 0.5])
    ]
    with mounted(Played(playing(resources_list={"resources": entries}))) as (mount, _):
        given = [entry.annotations and entry.annotations.priority for entry in mount.entries()]

    assert given == [None, None, 0.5]


def test_an_unexpected_fault_is_reported_and_the_mount_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(playing())
    faults = iter([RuntimeError("/secret/path")])

    def connect() -> Transport:
        for fault in faults:
            raise fault
        return played

    health: list[dict[str, object]] = []
    mount = Mount("birds", MountSettings(["played"]), connect)
    monkeypatch.setattr(link_module.Link, "_pause", lambda *_: health.append(dict(mount.health())))
    mount.begin()
    until(lambda: mount.health()["state"] == "up")
    mount.close()

    assert health[0]["problems"] == ["the mount is down: it sent what cannot be understood"]


def test_templates_without_end_are_taken_within_the_same_bounds() -> None:
    def page(params: dict[str, Any]) -> Any:
        number = int(params.get("cursor", "0"))
        templates = [{"uriTemplate": f"played://{number}/{{x}}", "name": "x"}]
        return {"resourceTemplates": templates, "nextCursor": str(number + 1)}

    endless, few = Played(playing(resources_templates_list=page)), Played(playing(resources_templates_list=page))
    with mounted(endless) as (mount, _):
        assert len(mount.templates()) == 200
    with mounted(few, max_entries=3) as (mount, _):
        assert len(mount.templates()) == 3

    asked = [[method for method, _ in one.asked].count("resources/templates/list") for one in (endless, few)]
    assert asked == [200, 3]


def test_a_server_that_has_no_list_of_resources_is_up_and_its_templates_are_served() -> None:
    templates = {"resourceTemplates": [{"uriTemplate": "played://b/{x}", "name": "b"}]}
    with mounted(Played(playing(resources_list=-32601, resources_templates_list=templates))) as (mount, client):
        assert (mount.health()["state"], client.page().entries) == ("up", ())
        assert [one.uri_template for one in client.templates()] == ["played://b/{x}"]


def test_a_server_without_resources_is_up_and_empty() -> None:
    played = Played(playing())
    played._opening = lambda method: (  # type: ignore[method-assign]
        {"supportedVersions": ["2026-07-28"], "capabilities": {}} if method == "server/discover" else None
    )
    with mounted(played) as (mount, client):
        assert (mount.health()["state"], client.page().entries) == ("up", ())


def test_a_list_without_a_hint_is_kept_for_its_time_and_one_with_a_hint_for_that() -> None:
    legacy, modern = Played(playing(), "legacy"), Played(playing())
    for played, count in ((legacy, 1), (modern, 3)):
        with mounted(played) as (mount, _):
            for _ in range(2):
                list(mount.entries())
        assert [method for method, _ in played.asked].count("resources/list") == count


def test_only_lists_that_are_others_than_before_have_another_token() -> None:
    entries = [ENTRY]
    with mounted(Played(playing(resources_list=lambda _: {"resources": entries}))) as (mount, client):
        at_first = mount.list_fingerprint()
        assert [entry.uri for entry in client.resources()] == ["played://a"]
        assert mount.list_fingerprint() == at_first
        entries.append({"uri": "played://b", "name": "b"})
        assert [entry.uri for entry in client.resources()] == ["played://a", "played://b"]
        assert mount.list_fingerprint() != at_first


# Copies


def test_a_fresh_copy_is_served_with_the_time_that_is_left() -> None:
    played = Played(
        playing(resources_read=contents({"uri": "played://a", "text": "x"}, ttlMs=60_000, cacheScope="public"))
    )
    with mounted(played) as (_, client):
        first, second = client.read("played://a"), client.read("played://a")

    assert [method for method, _ in played.asked].count("resources/read") == 1
    assert first.ttl_ms == 60_000
    assert 0 < second.ttl_ms < 60_000
    assert (first.etag, first.cache_scope) == (second.etag, "private")


def test_a_legacy_read_has_the_hint_of_the_configuration_and_is_not_kept() -> None:
    played = Played(playing(resources_read=contents({"uri": "played://a", "text": "x"})), "legacy")
    with mounted(played, ttl_ms=7) as (_, client):
        readings = [client.read("played://a") for _ in range(2)]

    assert [reading.ttl_ms for reading in readings] == [7, 7]
    assert [method for method, _ in played.asked].count("resources/read") == 2


def test_a_condition_is_passed_on() -> None:
    read = contents(
        {"uri": "played://a", "text": "", "_meta": {"dev.carrel/etag": "e1", "dev.carrel/status": 304}},
        _meta={"io.modelcontextprotocol/serverInfo": {}, "com.example/x": 1},
    )
    played = Played(playing(resources_read=read))
    with mounted(played) as (_, client):
        reading = client.read("played://a", if_none_match="e1")

    [params] = [params for method, params in played.asked if method == "resources/read"]
    assert params["_meta"]["dev.carrel/if-none-match"] == "e1"
    assert (reading.unchanged, reading.etag) == (True, "e1")


def test_meta_is_passed_on_but_what_is_the_protocol_s() -> None:
    meta = {"io.modelcontextprotocol/x": 1, "com.example/x": 2}
    read = contents({"uri": "played://a", "text": "t", "_meta": meta}, _meta=meta)
    with mounted(Played(playing(resources_read=read))) as (mount, _):
        assert mount.read("played://a") == Reading((Text("t", meta={"com.example/x": 2}),), meta={"com.example/x": 2})


@pytest.mark.parametrize(("prefix", "here"), [(True, "birds+played://"), (False, "played://")])
def test_uris_in_meta_are_spelled_as_they_are_here(prefix: bool, here: str) -> None:
    def meta(scheme: str) -> dict[str, Any]:
        return {
            "dev.carrel/uri": f"{scheme}a",
            "dev.carrel/next": f"{scheme}a?start=3&length=3",
            "dev.carrel/candidates": [f"{scheme}b", f"{scheme}c"],
            "dev.carrel/total": 9,
        }

    read = contents({"uri": "played://a", "text": "t", "_meta": meta("played://")}, _meta=meta("played://"))
    with mounted(Played(playing(resources_read=read)), prefix=prefix) as (mount, _):
        assert mount.read(f"{here}a") == Reading((Text("t", meta=meta(here)),), meta=meta(here))


def test_what_stands_for_a_uri_in_meta_and_is_none_is_left_out() -> None:
    meta = {"dev.carrel/uri": 5, "dev.carrel/next": "?start=3", "dev.carrel/candidates": [7, "played://b"]}
    read = contents({"uri": "played://a", "text": "t", "_meta": meta})
    with mounted(Played(playing(resources_read=read)), prefix=True) as (mount, _):
        [item] = mount.read("birds+played://a").items

    assert item.meta == {"dev.carrel/candidates": ["birds+played://b"]}


# Watching


@pytest.mark.parametrize("era", ERAS)
def test_a_server_that_cannot_tell_is_polled(era: EraName) -> None:
    texts = ["old"]
    play = playing(resources_read=lambda params: contents({"uri": params["uri"], "text": texts[0]}))
    with mounted(Played(play, era), poll_s=0.05) as (_, client), client.listen(["played://a"]) as listening:
        assert listening.honoured == ("played://a",)
        texts[0] = "new"
        assert listening.wait(PATIENCE_S) == "played://a"


def test_a_subscription_answered_at_once_is_polled_as_well() -> None:
    texts = ["old"]
    play = playing(
        resources_read=lambda params: contents({"uri": params["uri"], "text": texts[0]}), subscriptions_listen={}
    )
    with mounted(Played(play), poll_s=0.05) as (_, client), client.listen(["played://a"]) as listening:
        texts[0] = "new"
        assert listening.wait(PATIENCE_S) == "played://a"


def test_one_subscription_holds_all_that_is_watched_and_the_new_one_opens_first() -> None:
    told: list[str] = []
    changed = threading.Condition()

    class Listened(Played):
        def send(self, message: bytes) -> None:
            request = json.loads(message)
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": request.get("id")}}
            with changed:
                if request["method"] == "subscriptions/listen":
                    wanted = request["params"]["notifications"]
                    told.append(f"listen {sorted(wanted['resourceSubscriptions'])}")
                    self.say(
                        {
                            "method": "notifications/subscriptions/acknowledged",
                            "params": {"notifications": wanted, **meta},
                        }
                    )
                    changed.notify_all()
                    return
                if request["method"] == "notifications/cancelled":
                    told.append("cancelled")
                    changed.notify_all()
            super().send(message)

    play = playing(resources_read=lambda params: contents({"uri": params["uri"], "text": "x"}))
    with mounted(Listened(play)) as (_, client), client.listen(["played://a"]):
        with changed:
            assert changed.wait_for(lambda: told[1:] == ["listen ['played://a']", "cancelled"], PATIENCE_S), told
        with client.listen(["played://a", "played://b"]), changed:
            both = "listen ['played://a', 'played://b']"
            assert changed.wait_for(lambda: told[3:] == [both, "cancelled"], PATIENCE_S), told


# Processes

SERVER = """
import json, os, sys, threading
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    method, number = request["method"], request.get("id")
    if method == "initialize":
        opening = {"protocolVersion": "2025-11-25", "capabilities": {"resources": {}}, "serverInfo": {"name": "pid"}}
        say(id=number, result=opening)
    elif method == "resources/list":
        say(id=number, result={"resources": [{"uri": "pid://me", "name": "me"}]})
    elif method == "resources/read" and request["params"]["uri"] == "pid://die":
        os._exit(1)
    elif method == "resources/read":
        text = f"{os.getpid()} {os.getcwd()} {' '.join(sorted(os.environ))}"
        say(id=number, result={"contents": [{"uri": "pid://me", "text": text}]})
    elif number is not None:
        say(id=number, error={"code": -32601, "message": "unknown"})
"""


@pytest.fixture(name="project")
def project_folder(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    return folder


def desk_of(project: Path, *lines: str, **variables: str) -> Desk:
    (project / "carrel.toml").write_text("\n".join(lines), encoding="utf-8")
    environment = {"HOME": str(project.parent), "PATH": os.environ["PATH"], **variables}
    trust(project / "carrel.toml", environment)
    loaded = config.load(str(project), environment, [("server", "without", "workspace")])
    return open_desk(loaded, PATIENCE_S, waits_for_all=True)


def command(script: str = SERVER) -> str:
    return f"command = {json.dumps([sys.executable, '-u', '-c', script])}"


def text_of(client: Client, uri: str) -> str:
    [item] = client.read(uri).items
    assert isinstance(item, Text)
    return item.text


def test_a_child_runs_in_the_project_and_sees_only_what_it_is_given(project: Path) -> None:
    env = "env = { GARDEN = 'north ${WORD}' }"
    desk = desk_of(project, "[mounts.pid]", command(), env, "era = 'legacy'", WORD="wet", SECRET="s")
    with Client.to(desk.server) as client:
        _, folder, *names = text_of(client, "pid://me").split(" ")
    desk.close()

    assert folder == str(project)
    assert {"GARDEN", "HOME", "PATH"} <= set(names)
    assert not {"SECRET", "WORD"} & set(names)


def test_what_a_child_writes_to_stderr_goes_to_the_log(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    noisy = f"import sys\nprint('wet', file=sys.stderr, flush=True)\n{SERVER}"
    with caplog.at_level("INFO", "carrel.providers.mounts.connect"):
        desk = desk_of(project, "[mounts.pid]", command(noisy), "era = 'legacy'")
        with Client.to(desk.server) as client:
            assert text_of(client, "pid://me")
        desk.close()

    assert "mount pid: wet" in caplog.messages


def test_a_server_that_dies_is_restarted_and_its_death_is_an_error_on_its_own_uris_only(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.link.random.uniform", lambda low, high: 0.05)
    desk = desk_of(project, "[mounts.pid]", command(), "era = 'legacy'", "timeout_s = 5")
    with Client.to(desk.server) as client:
        before = text_of(client, "pid://me").split()[0]
        os.kill(int(before), signal.SIGKILL)
        after = before
        while after == before:
            with contextlib.suppress(RemoteError):
                after = text_of(client, "pid://me").split()[0]
        listed = [entry.uri for entry in client.resources()]
        health = json.loads(text_of(client, "carrel://health"))["providers"][1]
    desk.close()

    assert before != after
    assert listed[3:] == ["pid://me"]
    assert (health["state"], health["restarts"], health["lastCause"]) == ("up", 1, "it ended")


def test_a_server_that_dies_of_a_read_is_unavailable_while_it_is_down(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.link.random.uniform", lambda low, high: 30.0)
    desk = desk_of(project, "[mounts.pid]", command(), "era = 'legacy'", "timeout_s = 1")
    with Client.to(desk.server) as client:
        for uri in ("pid://die", "pid://me"):
            with pytest.raises(RemoteError) as caught:
                client.read(uri)
            assert (caught.value.code, caught.value.message) == (-32603, "Mount is unavailable: pid")
            wait_ms = caught.value.data["retryAfterMs"]
            assert isinstance(wait_ms, int)
            assert 0 < wait_ms <= 30_000
        listed = [entry.uri for entry in client.resources()]
        assert text_of(client, "carrel://guide")
    desk.close()

    assert listed[3:] == ["pid://me"]


def test_entries_of_a_server_long_down_are_listed_no_more(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.providers.mounts.link.random.uniform", lambda low, high: 0.3)
    desk = desk_of(project, "[mounts.pid]", command(), "era = 'legacy'", "timeout_s = 5")
    with Client.to(desk.server) as client, client.listen(list_changes=True) as listening:
        monkeypatch.setattr(link_module, "KEPT_S", 0.1)
        pid = int(text_of(client, "pid://me").split()[0])
        monkeypatch.setattr(subprocess, "Popen", None)
        mount = desk.catalog.mounted[1].provider
        vars(mount)["_link"]._connect = broken
        os.kill(pid, signal.SIGKILL)
        assert listening.wait(PATIENCE_S) == ""
        assert [entry.uri for entry in client.resources()][3:] == []
    desk.close()


def broken() -> Transport:
    raise ProviderError("cannot be started any more")


def test_a_program_that_is_not_there_leaves_the_mount_down_with_the_reason(project: Path) -> None:
    desk = desk_of(project, "[mounts.gone]", "command = ['no-such-program-4f1c']")
    with Client.to(desk.server) as client:
        problems = json.loads(text_of(client, "carrel://health"))["problems"]
        with pytest.raises(RemoteError) as caught:
            client.read("gone+x://a")
    desk.close()

    assert problems == ["gone: the mount is down: Cannot start: no-such-program-4f1c"]
    assert caught.value.message == "Mount is unavailable: gone"


@pytest.mark.slow
def test_closing_leaves_no_process_and_takes_all_mounts_at_once(project: Path) -> None:
    stubborn = (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER + "\nthreading.Event().wait(60)\n"
    )
    sections = [line for name in "ab" for line in (f"[mounts.{name}]", command(stubborn), "era = 'legacy'")]
    desk = desk_of(project, *sections)
    with Client.to(desk.server) as client:
        pids = [int(text_of(client, uri).split()[0]) for uri in ("pid://me", "b+pid://me")]
    closing = threading.Thread(target=desk.close)
    closing.start()
    closing.join(6.0)

    assert not closing.is_alive()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_slow_server_joins_later_and_the_first_list_says_that_it_is_stale(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.provider.FIRST_LIST_S", 0.1)
    gate = project / "gate"
    os.mkfifo(gate)
    slow = f"open({str(gate)!r}).read()\n" + SERVER
    (project / "carrel.toml").write_text(f"[mounts.slow]\n{command(slow)}\nera = 'legacy'\n", encoding="utf-8")
    environment = {"HOME": str(project.parent), "PATH": os.environ["PATH"]}
    trust(project / "carrel.toml", environment)
    desk = open_desk(config.load(str(project), environment, [("server", "without", "workspace")]))
    with Client.to(desk.server) as client, client.listen(list_changes=True) as listening:
        first = client.request("resources/list")
        gate.write_text("go", encoding="utf-8")
        assert listening.wait(PATIENCE_S) == ""
        second = client.request("resources/list")
    desk.close()

    assert (len(first["resources"]), first["ttlMs"]) == (3, 0)
    assert (second["resources"][3]["uri"], second["ttlMs"]) == ("pid://me", 1_000)


# A server that hangs, and lists that are remembered


@pytest.mark.usefixtures("impatient")
def test_a_server_that_hangs_holds_up_no_list_and_is_stale_in_health(project: Path) -> None:
    desk = desk_of(project, "[mounts.pid]", command(), "era = 'legacy'", "refresh_s = 0", "timeout_s = 10")
    with Client.to(desk.server) as client:
        pid = int(text_of(client, "pid://me").split()[0])
        os.kill(pid, signal.SIGSTOP)
        began = monotonic()
        lists = [[entry.uri for entry in client.resources()][3:] for _ in range(3)]
        took_s = monotonic() - began
        hung = health_of(client, "pid")
        os.kill(pid, signal.SIGCONT)
        until(lambda: list(client.resources()) and health_of(client, "pid")["state"] == "up")
    desk.close()

    assert lists == [["pid://me"]] * 3
    assert took_s < 5
    assert hung["state"] == "stale"
    assert re.fullmatch(r"the mount gives no list, asked \d s ago; the last one is served", hung["problems"][0])


@pytest.mark.usefixtures("impatient")
def test_a_server_that_gave_no_list_in_time_is_not_waited_for_again(project: Path) -> None:
    desk = desk_of(project, "[mounts.pid]", command(), "era = 'legacy'", "refresh_s = 0", "timeout_s = 0.4")
    with Client.to(desk.server) as client:
        pid = int(text_of(client, "pid://me").split()[0])
        os.kill(pid, signal.SIGSTOP)
        assert [entry.uri for entry in client.resources()][3:] == ["pid://me"]
        said = "the mount gives no list; the last one is served"
        until(lambda: said in health_of(client, "pid")["problems"])
        assert [entry.uri for entry in client.resources()][3:] == ["pid://me"]
        os.kill(pid, signal.SIGCONT)
        until(lambda: list(client.resources()) and health_of(client, "pid")["state"] == "up")
    desk.close()


def health_of(client: Client, name: str) -> dict[str, Any]:
    providers = json.loads(text_of(client, "carrel://health"))["providers"]
    [found] = [one for one in providers if one["name"] == name]
    assert isinstance(found, dict)
    return found


@pytest.fixture(name="gate")
def closed_gate(project: Path) -> Path:
    """A pipe that a server of `gated` waits for before it says a word; its first start finds it open."""
    gate = project / "gate"
    os.mkfifo(gate)
    return gate


def gated(project: Path) -> str:
    script = f"import os\nif os.path.exists({str(project / 'closed')!r}): open({str(project / 'gate')!r}).read()\n"
    with_template = SERVER.replace(
        'elif method == "resources/read" and',
        'elif method == "resources/templates/list":\n'
        '        say(id=number, result={"resourceTemplates": [{"uriTemplate": "pid://by/{x}", "name": "by"}]})\n'
        '    elif method == "resources/read" and',
    )
    return command(script + with_template)


def run_once(project: Path, *lines: str, **variables: str) -> None:
    desk = desk_of(project, "[mounts.slow]", gated(project), "era = 'legacy'", *lines, **variables)
    with Client.to(desk.server) as client:
        assert [entry.uri for entry in client.resources()][3:] == ["pid://me"]
    desk.close()
    (project / "closed").touch()


def reopened(project: Path, *lines: str, **variables: str) -> Desk:
    """Open the desk anew, without waiting for the mount."""
    text = "\n".join(("[mounts.slow]", gated(project), "era = 'legacy'", *lines))
    (project / "carrel.toml").write_text(text, encoding="utf-8")
    environment = {"HOME": str(project.parent), "PATH": os.environ["PATH"], **variables}
    trust(project / "carrel.toml", environment)
    return open_desk(config.load(str(project), environment, [("server", "without", "workspace")]))


def test_the_first_list_after_a_start_has_what_a_slow_server_listed_the_last_time(project: Path, gate: Path) -> None:
    run_once(project)
    desk = reopened(project)
    with Client.to(desk.server) as client:
        began = monotonic()
        first = client.request("resources/list")
        took_s = monotonic() - began
        templates = [one.uri_template for one in client.templates()]
        threading.Thread(target=gate.write_text, args=["go"]).start()
        pid, folder, *_ = text_of(client, "pid://me").split()
    desk.close()

    assert ([one["uri"] for one in first["resources"]][3:], first["ttlMs"]) == (["pid://me"], 0)
    assert "pid://by/{x}" in templates
    assert took_s < 1.5
    assert (pid.isdigit(), folder) == (True, str(project))


@pytest.mark.parametrize(
    ("lines", "variables"),
    [
        (("cwd = 'other'",), {"TOKEN": "a"}),
        (("env = { A = '1' }",), {"TOKEN": "a"}),
        (("env = { A = '${TOKEN}' }",), {"TOKEN": "b"}),
    ],
)
def test_another_configuration_does_not_get_the_remembered_list(
    project: Path, gate: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], variables: dict[str, str]
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.provider.FIRST_LIST_S", 0.1)
    (project / "other").mkdir()
    run_once(project, *(("env = { A = '${TOKEN}' }",) if variables["TOKEN"] == "b" else ()), TOKEN="a")
    desk = reopened(project, *lines, **variables)
    with Client.to(desk.server) as client:
        assert [entry.uri for entry in client.resources()][3:] == []
    gate.write_text("go", encoding="utf-8")
    desk.close()


def test_what_is_remembered_is_private_and_another_s_file_is_not_believed(project: Path, gate: Path) -> None:
    run_once(project)
    [kept] = (project.parent / ".cache" / "carrel" / "mounts").iterdir()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    elsewhere = project / "elsewhere.json"
    kept.rename(elsewhere)
    kept.symlink_to(elsewhere)
    desk = reopened(project)
    assert desk.catalog.mounted[1].provider.schemes == ()
    gate.write_text("go", encoding="utf-8")
    desk.close()


def test_a_remembered_list_is_for_those_who_may_read_it(project: Path, gate: Path) -> None:
    run_once(project)
    desk = reopened(project)
    with ActingAs(Access("guest", frozenset({"other:read"}))):
        listed = [entry.uri for entry in desk.catalog.entries()]
    gate.write_text("go", encoding="utf-8")
    desk.close()

    assert "pid://me" not in listed


def test_a_remembered_list_whose_scheme_is_taken_by_now_is_not_served(project: Path, gate: Path) -> None:
    memory = ListMemory(str(project), "birds")
    memory.save(Snapshot((Resource("shelf://a", "a"),)), "")
    mount = Mount("birds", MountSettings(["x"]), broken, memory=memory, taken_now=lambda: frozenset({"shelf"}))
    mount.begin()
    schemes = mount.schemes
    mount.close()

    assert schemes == ()


@pytest.mark.usefixtures("impatient")
def test_what_is_listed_can_be_read_at_every_moment_of_a_slow_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.provider.FIRST_LIST_S", 0.0)
    seen: list[tuple[list[str], bool]] = []

    class Looking(ListMemory):
        """Looks at the desk while the lists are saved, as another thread may do at that moment."""

        def save(self, snapshot: Snapshot, prefix: str) -> None:
            listed = [entry.uri for entry in catalog.entries()]
            adopted = catalog.find("played://b")
            seen.append((listed, all(catalog.find(uri).mounted is adopted.mounted for uri in listed)))
            super().save(snapshot, prefix)

    mount = Mount("birds", MountSettings(["played"]), lambda: Played(playing()), memory=Looking(str(tmp_path), "birds"))
    catalog = Catalog([mount])
    mount.begin()
    assert mount.wait(PATIENCE_S)
    listed = [entry.uri for entry in catalog.entries()]
    catalog.close()

    assert seen[0] == ([], True)
    assert all(is_readable for _, is_readable in seen)
    assert listed == ["played://a"]


def test_what_is_remembered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.providers.mounts.saved_lists.MAX_FILES", 2)
    many = tuple(Resource(f"many://{number}", "x") for number in range(5_000))
    for name in "abc":
        ListMemory(str(tmp_path), name).save(Snapshot(many), "")
    kept = ListMemory(str(tmp_path), "c").load()

    assert kept is not None
    assert len(kept.resources) == 2_000
    assert ListMemory(str(tmp_path), "a").load() is None
    ListMemory(str(tmp_path), "c").save(Snapshot((Resource("long://x", "x" * 3_000_000),)), "")
    assert ListMemory(str(tmp_path), "c").load() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"prefix": 5}', '{"prefix":"other+","resources":[],"templates":[]}'])
def test_a_remembered_list_that_is_broken_is_passed_over(tmp_path: Path, text: str) -> None:
    memory = ListMemory(str(tmp_path), "birds")
    memory.save(Snapshot((Resource("shelf://a", "a"),)), "")
    [file] = (tmp_path / "carrel" / "mounts").iterdir()
    file.write_text(text, encoding="utf-8")
    mount = Mount("birds", MountSettings(["x"]), broken, memory=ListMemory(str(tmp_path), "birds"))
    mount.begin()
    schemes = mount.schemes
    mount.close()

    assert schemes == ()


# Configuration


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", 'give either command = ["program", "argument"] or url = "https://…"'),
        ("command = ['x']\nurl = 'https://x'", "give either command"),
        ("command = ['x']\nenv = { A = '${NOT_SET}' }", "env.A: the environment has no NOT_SET"),
        ("command = ['x']\ncwd = 'nowhere'", "cwd: there is no folder"),
        ("url = 'http://example.com/mcp'", "is plain http to another machine; use https, or say insecure = true"),
        ("url = 'ftp://x'", "url: expected https://…"),
        ("url = 'http://localhost:none/mcp'", "url: expected https://…"),
        ("url = 'http://[::1/mcp'", "url: expected https://…"),
        ("command = ['x']\nera = 'new'", "era: expected one of auto, modern, legacy"),
        ("command = ['x']\nprefix = 'no'", "prefix: expected one of auto or true or false"),
        ("command = ['x']\ntimeout_s = 0", "timeout_s: expected a number from 0.1 to 300, got 0"),
        ("comand = ['x']", "has no key 'comand'; did you mean 'command'?"),
    ],
)
def test_a_mistake_in_a_mount_names_its_place(project: Path, lines: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        desk_of(project, "[mounts.x]", lines)

    assert "[mounts.x]" in str(caught.value)
    assert said in str(caught.value)


def test_a_mount_of_a_file_that_is_not_trusted_is_not_started(project: Path) -> None:
    (project / "carrel.toml").write_text("[mounts.x]\ncommand = ['touch', 'started']\n", encoding="utf-8")
    desk = open_desk(config.load(str(project), {"HOME": str(project.parent)}), PATIENCE_S, waits_for_all=True)
    desk.close()

    assert not (project / "started").exists()
    assert desk.notes == ("[mounts.x] in carrel.toml is not in effect: it runs code; run `carrel trust` to allow it",)


def test_a_uri_of_no_known_scheme_is_not_the_mount_s_fault() -> None:
    with mounted(Played(playing())) as (mount, client):
        with pytest.raises(RemoteError, match="Unknown scheme: nobody://x"):
            client.read("nobody://x")
        with pytest.raises(BadArgument):
            mount.read("played://a#x")


@pytest.mark.slow
def test_a_carrel_that_mounts_itself_does_so_once(project: Path) -> None:
    """A project that mounts its own folder: the one below sees that it is the same mount, and leaves it down."""
    own = json.dumps([sys.executable, "-m", "carrel", "serve", "--project", str(project), "--without", "workspace"])
    environment = {"HOME": str(project.parent)}
    (project / "carrel.toml").write_text(f"[mounts.me]\ncommand = {own}\n", encoding="utf-8")
    trust(project / "carrel.toml", environment)
    desk = desk_of(project, "[mounts.me]", f"command = {own}")
    with Client.to(desk.server) as client:
        below = json.loads(text_of(client, "me+carrel://health"))
    desk.close()

    assert below["problems"] == ["me: the mount is down: this server runs under the same mount already"]


@pytest.mark.slow
def test_carrel_s_own_address_is_an_error_at_the_start(project: Path) -> None:
    user_file = project.parent / ".config/carrel/config.toml"
    user_file.parent.mkdir(parents=True)
    user_file.write_text("[http]\nhosts = ['desk.example']\n[mounts.me]\nurl = 'https://desk.example/mcp'\n")
    command = [sys.executable, "-m", "carrel", "serve", "--http", "8123", "--project", str(project)]
    environment = {**os.environ, "HOME": str(project.parent), "XDG_CONFIG_HOME": ""}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment, check=False)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "carrel: [mounts.me] url: https://desk.example/mcp is the address of this server itself\n"


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", 8123, "http://127.0.0.1:8123/mcp"),
        ("127.0.0.1", 8123, "http://localhost:8123"),
        ("127.0.0.1", 8123, "http://[::1]:8123/mcp"),
        ("127.0.0.1", 8123, "http://127.1.2.3:8123/mcp"),
        ("0.0.0.0", 8123, "http://LOCALHOST:8123/mcp"),
        ("10.0.0.9", 8123, "https://10.0.0.9:8123/mcp"),
        ("127.0.0.1", 8123, "https://desk.example/mcp"),
        ("127.0.0.1", 80, "http://localhost/mcp"),
    ],
)
def test_every_name_of_this_server_is_its_own_address(host: str, port: int, url: str) -> None:
    assert is_own(url, host, port, frozenset({"desk.example"}))


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8124/mcp", "https://desk.example:8123/mcp", "https://10.0.0.9:8123", "http://["]
)
def test_another_address_is_none_of_ours(url: str) -> None:
    assert not is_own(url, "127.0.0.1", 8123, frozenset({"desk.example"}))


def test_a_mounted_carrel_leaves_the_user_s_own_mounts_to_the_one_above(project: Path) -> None:
    own = project.parent / ".config/carrel/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f"[mounts.me]\n{command()}\n", encoding="utf-8")
    environment = {"HOME": str(project.parent), "CARREL_MOUNTED_BY": "0123456789abcdef"}
    desk = open_desk(config.load(str(project), environment), PATIENCE_S, waits_for_all=True)
    desk.close()

    assert "me" not in [choice.name for choice in desk.choices]


# Carrels that mount each other


@pytest.mark.parametrize("era", ERAS)
def test_of_two_carrels_that_mount_each_other_the_second_leaves_its_mount_down(era: EraName) -> None:
    first, second = Catalog(), Catalog()
    first.mount(Guide(first))
    second.mount(Guide(second))
    for catalog, other, name in ((first, second, "second"), (second, first, "first")):
        server = Server(other, Watcher(other, 0.05))
        options = MountSettings(["memory"], era=era)
        mount = Mount(name, options, partial(Memory, server), instance=catalog.instance)
        catalog.mount(mount)
        mount.begin()
        assert mount.wait(PATIENCE_S)
    with Client.to(Server(second)) as client:
        problems = json.loads(text_of(client, "carrel://health"))["problems"]
        with pytest.raises(RemoteError, match="Mount is unavailable: first"):
            client.read("first+carrel://guide")
    listed = [[entry.uri for entry in catalog.entries()] for catalog in (first, second)]
    first.close()
    second.close()

    assert problems == [
        "first: the mount is down: it lists this server's own resources: it is this server or mounts it"
    ]
    own = ["carrel://guide", "carrel://catalog", "carrel://health"]
    assert listed == [[*own, "second+carrel://catalog", "second+carrel://guide", "second+carrel://health"], own]


@pytest.mark.parametrize("era", ERAS)
def test_a_server_that_comes_to_mount_us_is_left_and_its_entries_are_listed_no_more(
    era: EraName, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("carrel.providers.mounts.link.random.uniform", lambda low, high: 0.05)
    entries: list[dict[str, Any]] = [ENTRY]
    play = playing(resources_list=lambda params: {"resources": entries})
    mount = Mount("birds", MountSettings(["played"], refresh_s=0.0), lambda: Played(play, era), instance="0123")
    mount.begin()
    assert mount.wait(PATIENCE_S)
    before = [entry.uri for entry in mount.entries()]
    entries.append({"uri": "us+carrel://health", "name": "health", "_meta": {"dev.carrel/instance": "0123"}})
    until(lambda: not list(mount.entries()))  # a list that is asked for while another is under way may be the last one
    until(lambda: "mounts it" in str(mount.health()["lastCause"]))
    entries.pop()
    until(lambda: mount.health()["state"] == "up")
    again = [entry.uri for entry in mount.entries()]
    mount.close()

    assert (before, again) == (["played://a"], ["played://a"])
    assert {record.getMessage() for record in caplog.records} == {
        "mount birds is down: it lists this server's own resources: it is this server or mounts it"
    }
