"""The laws every provider obeys, as a class of tests: subclass it, return a provider, run pytest.

    class TestMine(ProviderContract):
        def provider(self) -> Provider:
            return Mine(...)

The tests call the real server in memory, in both eras. A subclass may also give a missing URI, a way to change
something, and values for template variables. Without these, the tests use made-up values, or test less.
"""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from carrel.catalog.pages import key_of, seal
from carrel.catalog.routes import RANGE_NAMES
from carrel.client.client import EraName
from carrel.core.errors import BadArgument, CarrelError, ProviderError, RemoteError
from carrel.core.hierarchy import parent_of
from carrel.core.limits import MAX_COMPLETIONS, REQUEST_DEADLINE_S
from carrel.core.model import FOLDER_TYPE, Range, Reading
from carrel.core.provider import Provider
from carrel.core.template import UriTemplate
from carrel.core.uri import normalise, same, scheme_of, with_query
from carrel.protocol.client_requests import UPDATED
from carrel.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from carrel.providers.objects.protocol import Capable
from carrel.testing.harness import (
    AS_CONTENT,
    ERAS,
    NOT_FOUND,
    PART,
    VERSIONS,
    Trial,
    arguments_of,
    bad_inputs,
    body,
    check_discreet,
    check_names,
    check_schema,
    held,
    is_absolute,
    is_path,
    join,
    joined,
    remaining,
)

QUIET_S: Final = 0.4
"""How long to wait for a notification that must not come."""

SAMPLE: Final = 50
"""Maximum number of entries, values or URIs with which a law is tested."""

Law = Callable[["ProviderContract", Trial], None]


def in_both_eras(law: Law) -> Callable[["ProviderContract"], None]:
    """Return a test that runs a law in each era, on a fresh provider."""

    def test(self: "ProviderContract") -> None:
        for era in ERAS:
            with self.trial(era) as trial:
                law(self, trial)

    # Not `functools.wraps`: pytest would then look for a fixture `trial`.
    test.__name__, test.__qualname__, test.__doc__ = law.__name__, law.__qualname__, law.__doc__
    return test


class ProviderContract:
    """The laws, and their time limits."""

    poll_s: float = 0.05
    """The polling interval."""
    noticed_s: float = 2.0
    """How soon a change must be notified, and everything released after `close`."""
    deadline_s: float = REQUEST_DEADLINE_S
    """How long a request may take."""

    def provider(self) -> Provider | Capable:
        """Return a fresh provider or object; called several times in one test."""
        raise NotImplementedError

    def missing_uri(self) -> str | None:
        """Return a URI of the provider's scheme that does not exist."""
        return None

    def change(self, uri: str) -> None:
        """Change the content of a URI in the provider returned last; raise NotImplementedError if it cannot."""
        raise NotImplementedError

    def variables(self) -> Mapping[str, str | Mapping[str, str]]:
        """Return values that can be read: by variable, or by template as a mapping of its variables."""
        return {}

    def validate(self, message: bytes, version: str, method: str) -> None:
        """Validate a message against the schema of its version; `method` is its own or that of the request."""

    @contextlib.contextmanager
    def trial(self, era: EraName) -> Iterator[Trial]:
        """Serve a fresh provider; afterwards validate all messages that its clients got (law 1)."""
        trial = Trial(self.provider, era, poll_s=self.poll_s, deadline_s=self.deadline_s)
        with contextlib.closing(trial):
            yield trial
        for message, method in trial.heard:
            self.validate(message, VERSIONS[era], method)

    @in_both_eras
    def test_law_1_what_is_declared_answers_and_what_is_not_is_an_unknown_method(self, trial: Trial) -> None:
        check_names(trial.provider)
        trial.check_capabilities()
        declared = trial.client.capabilities
        assert trial.connect().capabilities == declared, "the second client gets other capabilities"
        templates = [template.uri_template for template in trial.client.templates()] or ["none:"]
        variable = next(iter(UriTemplate(templates[0]).variables), "none")
        reference = {"ref": {"type": "ref/resource", "uri": templates[0]}, "argument": {"name": variable, "value": ""}}
        asked: dict[str, tuple[str, Mapping[str, object]]] = {
            "resources": ("resources/list", {}),
            "completions": ("completion/complete", reference),
            "tools": ("tools/list", {}),
            "prompts": ("prompts/list", {}),
        }
        for capability, (method, params) in asked.items():
            code = getattr(trial.refusal(method, params), "code", None)
            answer = INVALID_PARAMS if templates[0] == "none:" and capability == "completions" else None
            expected = answer if capability in declared else METHOD_NOT_FOUND
            assert code == expected, f"{method} answers {code}, declared are {sorted(declared)}"

    @in_both_eras
    def test_law_2_every_entry_has_its_own_uri_and_a_name(self, trial: Trial) -> None:
        trial.check_lists()
        trial.catalog.page_size = 2
        pages = list(trial.pages())
        entries = [entry for page in pages for entry in page["resources"]]
        for entry in entries:
            uri = entry["uri"]
            assert entry["name"], f"{uri} has no name"
            assert is_absolute(uri), f"{uri[:200]} is not an absolute URI"
            assert scheme_of(uri) in trial.provider.schemes, f"{uri} is not of {trial.provider.schemes}"
        twice = [uri for uri, n in Counter(normalise(entry["uri"]) for entry in entries).items() if n > 1]
        assert not twice, f"listed twice: {twice}"
        hints = [(page.get("ttlMs"), page.get("cacheScope")) for page in pages]
        if trial.era == "modern":
            assert all(type(ttl_ms) is int and ttl_ms >= 0 for ttl_ms, _ in hints), f"ttlMs: {hints}"
        assert len({scope for _, scope in hints}) == 1, f"cacheScope differs between pages: {hints}"

    @in_both_eras
    def test_law_3_pages_joined_are_the_whole_list(self, trial: Trial) -> None:
        entries = list(trial.provider.entries())
        keys = [key_of(entry) for entry in entries]
        assert keys == sorted(set(keys)), f"not in key order: {keys[:SAMPLE]}"
        pinned = [entry.pinned for entry in entries]
        assert pinned == sorted(pinned, reverse=True), "an entry that is pinned comes after one that is not"
        whole = [entry.uri for entry in trial.catalog.entries()]
        for size in (1, 2, 7):
            trial.catalog.page_size = size
            assert trial.uris() == whole, f"pages of {size} joined are another list"
        for cursor in ("x", "b3RoZXI", seal("m", "no-such-provider", ""), seal("t", "1")):
            error = trial.refusal("resources/list", {"cursor": cursor})
            assert error is not None, f"the foreign cursor {cursor} is accepted"
            assert error.code == INVALID_PARAMS, f"a foreign cursor is answered with {error.code}"

    @in_both_eras
    def test_law_4_what_is_listed_can_be_read_as_what_it_is_listed(self, trial: Trial) -> None:
        for entry in trial.client.resources():
            try:
                reading = trial.read(entry.uri)
            except CarrelError as error:
                raise AssertionError(f"{entry.uri} is listed and cannot be read: {error}") from error
            for item in reading.items:
                uri = item.uri or ""
                if same(uri, entry.uri):
                    expected = entry.mime_type or item.mime_type
                    assert item.mime_type == expected, f"{uri} is {item.mime_type!r}, listed as {expected!r}"
                else:
                    assert trial.is_served(uri), f"{entry.uri} gives an item of {uri}, which is not served"

    @in_both_eras
    def test_law_4_a_declared_size_is_the_length_in_bytes(self, trial: Trial) -> None:
        for entry in trial.client.resources():
            if entry.size is not None:
                size = trial.total(entry.uri)
                assert entry.size == size, f"{entry.uri} has {size} bytes, listed with {entry.size}"

    @in_both_eras
    def test_law_5_two_reads_are_equal_and_the_etag_says_so(self, trial: Trial) -> None:
        before = trial.uris()
        first, second = ({uri: trial.read(uri) for uri in before} for _ in range(2))
        for uri, reading in first.items():
            assert body(second[uri]) == body(reading), f"{uri} differs without a change"
            assert second[uri].etag == reading.etag, f"the ETag of {uri} differs without a change"
            if reading.error is None:
                assert reading.etag, f"{uri} has no ETag"
                assert trial.read(uri, reading.etag).unchanged, f"{uri} is sent again, although the client has its ETag"
        assert trial.uris() == before, "reading changed the list"

    @in_both_eras
    def test_law_5_after_a_change_the_etag_is_another(self, trial: Trial) -> None:
        before = {uri: trial.read(uri) for uri in trial.uris()}
        uri = self._change_one(before)
        if uri is not None:
            with contextlib.suppress(RemoteError):
                after = trial.read(uri, before[uri].etag)
                assert not after.unchanged, f"{uri} changed, and its old ETag still holds"
                assert after.etag != before[uri].etag, f"{uri} changed, and its ETag did not"

    @in_both_eras
    def test_law_6_ranges_joined_are_the_whole(self, trial: Trial) -> None:
        routes = [UriTemplate(template.uri_template) for template in trial.client.templates()]
        is_ours = not any(RANGE_NAMES & set(template.variables) for template in routes)
        for uri, reading in trial.read_all(trial.uris()[:SAMPLE]).items():
            if len(reading.items) != 1 or reading.error is not None:
                continue
            whole, total = joined([reading]), trial.total(uri)
            for step in (1 if total <= 64 else min(PART, total // 7 + 1), min(PART, total // 3 + 1)):
                starts = range(0, max(1, min(total, PART)), step)
                parts = [trial.client.read(uri, wanted=Range(start, step)) for start in starts]
                together = joined(parts)
                size = len(whole) if total <= PART else min(len(whole), len(together))
                assert together[:size] == whole[:size], (
                    f"the parts of {uri}, {step} bytes each, do not join to the whole"
                )
                assert total > PART or len(together) == size, (
                    f"the parts of {uri}, {step} bytes each, are longer than the whole"
                )
                asked = trial.client.read(with_query(uri, start=0, length=step)) if is_ours else parts[0]
                assert joined([asked]) == joined(parts[:1]), (
                    f"{uri}: a range in the query returns other bytes than the same range beside the URI"
                )
            past = trial.client.read(uri, wanted=Range(total + 9, 9))
            meta = past.items[0].meta or {}
            assert not joined([past]), f"{uri} returns bytes past its end"
            assert meta.get("dev.carrel/start") == meta.get("dev.carrel/total") == total, f"{uri} past the end: {meta}"

    @in_both_eras
    def test_law_7_a_missing_uri_is_not_found(self, trial: Trial) -> None:
        known = self.missing_uri()
        for uri in [known] if known else [f"{scheme}:///no/such/thing-4f1c" for scheme in trial.provider.schemes]:
            error = trial.refusal("resources/read", {"uri": uri})
            if error is None:
                assert not known, f"{uri} is missing and can be read"
                assert trial.read(uri).items, f"{uri} gives empty contents"
            else:
                expected = (NOT_FOUND[trial.era], AS_CONTENT) if known else trial.refusals
                assert error.code in expected, f"{uri} is answered with {error.code}, not {expected}"
                assert error.data.get("uri") == uri, f"the error for {uri} names {error.data.get('uri')}"

    @in_both_eras
    def test_law_7_hostile_uris_are_refused(self, trial: Trial) -> None:
        for uri in trial.hostile_uris():
            error = trial.refusal("resources/read", {"uri": uri})
            assert error is not None, f"{uri[:200]} can be read"
            assert error.code in trial.refusals, f"{uri[:200]} is answered with {error.code}"

    @in_both_eras
    def test_law_8_no_error_shows_internals(self, trial: Trial) -> None:
        known = self.missing_uri()
        missing = [known] if known else [f"{scheme}:///no/such" for scheme in trial.provider.schemes[:1]]
        for uri in [*missing, *trial.uris(), *trial.hostile_uris()]:
            for spelled in (uri, with_query(uri, **{"no-such": "1"}) if is_absolute(uri) else uri):
                error = trial.refusal("resources/read", {"uri": spelled})
                if error is not None:
                    check_discreet(error.message, error.data, spelled)
        for tool in trial.client.tools() if "tools" in trial.client.capabilities else []:
            for arguments in bad_inputs(tool):
                error = trial.refusal("tools/call", {"name": tool.name, "arguments": arguments})
                text = str(trial.client.call(tool.name, arguments).blocks) if error is None else error.message
                check_discreet(text, {}, "")

    @in_both_eras
    def test_law_9_every_call_ends_in_time_and_the_next_is_answered(self, trial: Trial) -> None:
        for uri in [*trial.uris()[:SAMPLE], *trial.hostile_uris()]:
            try:
                trial.refusal("resources/read", {"uri": uri})
                error = trial.refusal("resources/list")
            except ProviderError as late:
                raise AssertionError(f"{uri[:200]}: no answer in {self.deadline_s + 1} s") from late
            assert error is None, f"after reading {uri[:200]}, the list is answered with {error}"

    @in_both_eras
    def test_law_9_32_reads_at_once_get_their_own_answers(self, trial: Trial) -> None:
        expected = {uri: body(trial.read(uri)) for uri in trial.uris()[:SAMPLE]}
        clients = [trial.connect() for _ in range(4)]
        reads = [(uri, client) for _ in range(32) for client in clients for uri in expected][: 32 * 8]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            with ThreadPoolExecutor(32) as pool:
                bodies = list(pool.map(lambda read: body(trial.read(read[0], client=read[1])), reads))
        finally:
            sys.setswitchinterval(interval)
        wrong = [uri for (uri, _), given in zip(reads, bodies, strict=True) if given != expected[uri]]
        assert not wrong, (
            f"these return something else when they are read at the same time as others: {sorted(set(wrong))}"
        )

    @in_both_eras
    def test_law_10_templates_match_their_own_expansions(self, trial: Trial) -> None:
        for listed in trial.client.templates():
            template = UriTemplate(listed.uri_template)
            given = self._values(template)
            values = {**{name: "x" for name in template.variables if is_path(template, name)}, **given}
            uri = template.expand(values)
            assert template.match(uri) == values, f"{uri} does not match {template.text}"
            error = trial.refusal("resources/read", {"uri": uri})
            if error is not None:
                assert not given or values != given, f"{uri}, of values that can be read, is answered with {error.code}"
                assert error.code in trial.refusals, f"{uri} is answered with {error.code}"

    @in_both_eras
    def test_law_10_completions_put_into_the_template_can_be_read(self, trial: Trial) -> None:
        for listed in trial.client.templates() if "completions" in trial.client.capabilities else []:
            template = UriTemplate(listed.uri_template)
            chosen = {name: value for name, value in self._values(template).items() if is_path(template, name)}
            for name in template.variables:
                others = {other: value for other, value in chosen.items() if other != name}
                offered = self._offered(trial, template, name, others)
                assert len(offered) <= MAX_COMPLETIONS, f"{len(offered)} values for {name}"
                if all(other in others or other == name for other in template.variables if is_path(template, other)):
                    for value in offered[:SAMPLE]:
                        self._check_readable(trial, template, {**others, name: value})
                if offered and is_path(template, name):
                    chosen.setdefault(name, offered[0])

    @in_both_eras
    def test_law_11_each_subscriber_is_notified_of_a_change_once(self, trial: Trial) -> None:
        before = {uri: trial.read(uri) for uri in trial.uris()[:SAMPLE]}
        with trial.client.listen(before) as listening, trial.connect().listen() as other:
            assert set(listening.honoured) == set(before), f"not honoured: {set(before) - set(listening.honoured)}"
            uri = self._change_one(before)
            if uri is not None:
                notified = listening.wait(self.noticed_s + self.poll_s)
                assert notified is not None, f"{uri} changed, and no notification came"
            assert other.wait(QUIET_S + 2 * self.poll_s) is None, "a client that did not subscribe gets a notification"
        notified_uris = Counter(json.loads(news)["params"]["uri"] for news, kind in trial.heard if kind == UPDATED)
        changed = {uri for uri in notified_uris if uri not in before or trial.has_changed(uri, before[uri])}
        assert notified_uris == Counter(changed), f"notified: {dict(notified_uris)}, changed: {changed}"
        assert uri is None or uri in notified_uris, f"{uri} changed, notified: {dict(notified_uris)}"

    @in_both_eras
    def test_law_12_tools_have_schemas_and_bad_input_is_a_result_that_says_so(self, trial: Trial) -> None:
        error = trial.refusal("tools/call", {"name": "no-such-tool-4f1c", "arguments": {}})
        is_declared = "tools" in trial.client.capabilities
        expected = INVALID_PARAMS if is_declared else METHOD_NOT_FOUND
        assert error is not None, "an unknown tool can be called"
        assert error.code == expected, f"an unknown tool is answered with {error.code}"
        tools = trial.client.tools() if is_declared else []
        assert len({tool.name for tool in tools}) == len(tools), "two tools have one name"
        for tool in tools:
            check_schema(tool)
            for arguments in bad_inputs(tool):
                error = trial.refusal("tools/call", {"name": tool.name, "arguments": arguments})
                assert error is None, f"{tool.name} with bad input is answered with {error}"
                result = trial.client.call(tool.name, arguments)
                assert result.is_error, f"{tool.name} accepts the bad arguments {arguments}"
                is_named = any(name in str(result.blocks) for name in arguments_of(tool))
                assert is_named, f"{tool.name}: the error {result.blocks} names no argument"

    @in_both_eras
    def test_law_14_a_folder_holds_what_is_listed_below_it(self, trial: Trial) -> None:
        for folder in dict.fromkeys(parent_of(uri) for uri in trial.uris()[:SAMPLE]):
            children = trial.children(folder)
            uris = [child["uri"] for child in children]
            for size in (1, 2):
                trial.catalog.page_size = size
                assert [one["uri"] for one in trial.children(folder)] == uris, f"{folder}: pages of {size} differ"
            trial.catalog.page_size = 1_000
            below = [uri for uri in trial.uris()[:SAMPLE] if parent_of(uri) == folder]
            missing = [uri for uri in below if uri not in uris]
            assert not missing, f"{folder} is read without {missing}, which are listed"
            assert len(set(uris)) == len(uris), f"{folder} has a child twice"
            for child in children[:SAMPLE]:
                error = trial.refusal("resources/directory/read", {"uri": child["uri"]})
                expected = None if child.get("mimeType") == FOLDER_TYPE else INVALID_PARAMS
                code = getattr(error, "code", None)
                assert code == expected, f"{child['uri']} is a {child.get('mimeType')}, read as a folder: {code}"

    def test_law_13_closed_twice_a_provider_holds_nothing(self) -> None:
        # Once before, so that what is loaded only once does not count.
        self._use_and_close()
        before = held()
        closed = self._use_and_close()
        left = join(held().threads - before.threads, self.noticed_s)
        assert not left, f"threads of {closed[0].name} still run: {left}"
        processes, files = remaining(before, self.noticed_s)
        assert not processes, f"processes of {closed[0].name} are left: {processes}"
        assert not files, f"files of {closed[0].name} are open: {files}"

    def _use_and_close(self) -> list[Provider]:
        """Use a provider in each era, close it twice, and return it, so that it is not garbage-collected."""
        used = []
        for era in ERAS:
            with self.trial(era) as trial, trial.client.listen(trial.uris()[:SAMPLE], list_changes=True):
                for uri in trial.uris()[:SAMPLE]:
                    trial.read(uri)
            trial.provider.close()
            used.append(trial.provider)
        return used

    def _check_readable(self, trial: Trial, template: UriTemplate, values: Mapping[str, str]) -> None:
        try:
            trial.read(template.expand(values))
        except (BadArgument, RemoteError) as error:
            raise AssertionError(f"{template.text} with the completed {values} cannot be read: {error}") from error

    def _offered(self, trial: Trial, template: UriTemplate, name: str, others: Mapping[str, str]) -> tuple[str, ...]:
        try:
            return trial.client.complete(template.text, name, "", others).values
        except RemoteError as error:
            # A parameter without completions may be refused.
            if error.code != INVALID_PARAMS or is_path(template, name):
                raise
            return ()

    def _change_one(self, uris: Mapping[str, Reading]) -> str | None:
        for uri in uris:
            with contextlib.suppress(NotImplementedError):
                self.change(uri)
                return uri
        return None

    def _values(self, template: UriTemplate) -> dict[str, str]:
        given = self.variables()
        own = given.get(template.text)
        values = own if isinstance(own, Mapping) else given
        return {name: value for name in template.variables if isinstance(value := values.get(name), str)}
