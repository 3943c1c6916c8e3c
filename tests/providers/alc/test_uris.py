"""The grammar of alc:// and the message of each check, in the order of the checks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.catalog.catalog import Catalog
from carrel.core.errors import NotFound, RequestError
from carrel.core.provider import Project
from carrel.providers.alc import Alc
from carrel.providers.alc.uris import AlcTarget, is_eval_id, listed_target
from tests.providers.alc.homes import Home, refusal

SAMPLES = "alc://cards/c/samples"
LOG = "alc://logs/s"
EVERYWHERE = "start, length, lines, outline, budget"
LINES = "for example ?lines=1-50"
LONG_ID = "a" * 300

REFUSED = (
    ("ALC://types/alc.d.lua", "invalid scheme: expected alc://, got ALC://types/alc.d.lua"),
    ("alc:types/alc.d.lua", "invalid scheme: expected alc://, got alc:types/alc.d.lua"),
    ("aLc:/x", "invalid scheme: expected alc://, got aLc:/x"),
    (" alc://types/alc.d.lua", "invalid scheme: expected alc://, got  alc://types/alc.d.lua"),
    ("types/alc.d.lua", "invalid scheme: expected alc://, got types/alc.d.lua"),
    ("other://x", "invalid scheme: expected alc://, got other://x"),
    ("alc://cards/" + "a" * 8_192, "uri too long: 8204 characters, limit is 8192"),
    ("alc://", "missing path segment in alc://"),
    ("alc:///", "missing path segment in alc:///"),
    ("alc://cards", "missing path segment in alc://cards"),
    ("alc://cards/?x=1", "missing path segment in alc://cards/?x=1"),
    ("alc://foo", "unknown service: foo"),
    ("alc://foo/bar?=1", "unknown service: foo"),
    ("alc://Types/alc.d.lua", "unknown service: Types"),
    ("alc://types/../x", "path traversal segment rejected: .."),
    ("alc://../types/x", "path traversal segment rejected: .."),
    ("alc://cards/./a", "path traversal segment rejected: ."),
    ("alc://foo/..", "path traversal segment rejected: .."),
    ("alc://cards/a?=1", "invalid query: empty key in query of alc://cards/a?=1"),
    ("alc://cards/a/b/c?=", "invalid query: empty key in query of alc://cards/a/b/c?="),
    ("alc://cards/%2e%2e", "card_id '%2e%2e' on alc://cards/%2e%2e contains reserved character '%'"),
    ("alc://logs/a b", "session_id 'a b' on alc://logs/a b contains reserved character ' '"),
    ("alc://cards/é", "card_id 'é' on alc://cards/é contains reserved character 'é'"),
    ("alc://cards/a#b", "card_id 'a#b' on alc://cards/a#b contains reserved character '#'"),
    ("alc://logs/a\\b", "session_id 'a\\b' on alc://logs/a\\b contains reserved character '\\'"),
    ("alc://cards/a\n", "card_id 'a\\x0a' on alc://cards/a\\x0a contains reserved character '\\x0a'"),
    ("alc://scenarios/a&b", "scenario name 'a&b' on alc://scenarios/a&b contains reserved character '&'"),
    ("alc://eval/a=1", "eval result_id 'a=1' on alc://eval/a=1 contains reserved character '='"),
    ("alc://packages/a+b/meta", "package name 'a+b' on alc://packages/a+b/meta contains reserved character '+'"),
    ("alc://cards/a?x=1", f"query params not supported on alc://cards/a?x=1 (known: {EVERYWHERE}; {LINES})"),
    (
        "alc://types/other.lua?x",
        f"query params not supported on alc://types/other.lua?x (known: {EVERYWHERE}; {LINES})",
    ),
    ("alc://hub/index?x=1", f"query params not supported on alc://hub/index?x=1 (known: {EVERYWHERE}; {LINES})"),
    ("alc://eval/bad?x=1", f"query params not supported on alc://eval/bad?x=1 (known: {EVERYWHERE}; {LINES})"),
    (
        f"{SAMPLES}?limit=5&foo=1",
        f"unsupported query param 'foo' on {SAMPLES}?limit=5&foo=1 (known: offset, limit, {EVERYWHERE}; {LINES})",
    ),
    (
        f"{LOG}?b=1&a=2",
        f"unsupported query param 'b' on {LOG}?b=1&a=2 (known: limit, max_chars, {EVERYWHERE}; {LINES})",
    ),
    (f"{LOG}?foo=1&limit=x", f"invalid query param 'limit=x' on {LOG}?foo=1&limit=x: invalid digit found in string"),
    (f"{SAMPLES}?limit=", f"invalid query param 'limit=' on {SAMPLES}?limit=: cannot parse integer from empty string"),
    (f"{SAMPLES}?limit", f"invalid query param 'limit=' on {SAMPLES}?limit: cannot parse integer from empty string"),
    *(
        (
            f"{SAMPLES}?limit={bad}",
            f"invalid query param 'limit={bad}' on {SAMPLES}?limit={bad}: invalid digit found in string",
        )
        for bad in ("-1", "1.5", "1_0", "%31", "٣", "abc", "+", "++1", " 1", "1 ")
    ),
    (
        f"{SAMPLES}?limit=18446744073709551616",
        f"invalid query param 'limit={2**64}' on {SAMPLES}?limit={2**64}: number too large to fit in target type",
    ),
    (f"{SAMPLES}?limit=10001", f"query param 'limit=10001' on {SAMPLES}?limit=10001 exceeds cap of 10000"),
    (f"{SAMPLES}?limit=+010001", f"query param 'limit=10001' on {SAMPLES}?limit=+010001 exceeds cap of 10000"),
    (
        f"{SAMPLES}?limit=10001&offset=10000001",
        f"query param 'offset=10000001' on {SAMPLES}?limit=10001&offset=10000001 exceeds cap of 10000000",
    ),
    (f"{LOG}?limit=10001", f"query param 'limit=10001' on {LOG}?limit=10001 exceeds cap of 10000"),
    (f"{LOG}?max_chars=1000001", f"query param 'max_chars=1000001' on {LOG}?max_chars=1000001 exceeds cap of 1000000"),
    (
        f"{LOG}?max_chars=18446744073709551615",
        f"query param 'max_chars=18446744073709551615' on {LOG}?max_chars=18446744073709551615 exceeds cap of 1000000",
    ),
    *(
        (f"alc://eval/{bad}", f"invalid eval_id: must be {{strategy}}_{{timestamp}}, got '{bad}'")
        for bad in ("9e8d7c6b-0001-0000-0000-000000000000", "a_b", "a__1", "_1", "a.b_1")
    ),
    (
        "alc://eval/plan_solve_1745000000",
        (
            "invalid eval_id: must be {strategy}_{timestamp}, got 'plan_solve_1745000000'; "
            'strategies with _ in their names need eval_ids = "relaxed" in [alc]'
        ),
    ),
    (f"alc://eval/{LONG_ID}", f"invalid eval_id: must be {{strategy}}_{{timestamp}}, got '{'a' * 200}…'"),
)
MISSING = (
    "alc://types/other.lua",
    "alc://types/alc.d.lua/x",
    "alc://types/a/b?x=1",
    "alc://cards/a/b/c",
    "alc://cards/a/Samples",
    "alc://packages/a",
    "alc://packages/a/init",
    "alc://hub/x",
    "alc://hub/index/x",
)


@pytest.mark.parametrize(("uri", "message"), REFUSED, ids=[uri[:60] for uri, _ in REFUSED])
def test_the_first_check_that_fails_decides_the_message(home: Home, uri: str, message: str) -> None:
    assert refusal(home.catalog(), uri) == ("InvalidParams", message)


@pytest.mark.parametrize("uri", MISSING)
def test_what_has_no_such_shape_is_not_found(home: Home, uri: str) -> None:
    assert refusal(home.catalog(), uri) == ("NotFound", f"resource not found: {uri}")


def target_of(home: Home, uri: str) -> AlcTarget:
    """Return the target that the reader of a URI looks for."""
    provider = home.provider()
    found: list[AlcTarget] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(provider._reader, "read", found.append)
        home.serve(provider).find(uri).open()
    [target] = found
    return target


@pytest.mark.parametrize(
    ("uri", "target"),
    [
        ("alc:///types//alc.d.lua/", ("types", "alc.d.lua", ())),
        ("alc://cards/a..b", ("card", "a..b", ())),
        ("alc://cards/a?&&", ("card", "a", ())),
        ("alc://cards/a?", ("card", "a", ())),
        (SAMPLES, ("samples", "c", (0, 100))),
        (f"{SAMPLES}?limit=abc&limit=5", ("samples", "c", (0, 5))),
        (f"{SAMPLES}?offset=10000000&limit=10000", ("samples", "c", (10_000_000, 10_000))),
        (f"{SAMPLES}?limit=+007&offset=0", ("samples", "c", (0, 7))),
        (f"{SAMPLES}?limit=" + "0" * 5_000 + "9", ("samples", "c", (0, 9))),
        (LOG, ("log", "s", (50, 20_000))),
        (f"{LOG}?max_chars=1000000&limit=0", ("log", "s", (0, 1_000_000))),
        (f"{LOG}?limit=10000", ("log", "s", (10_000, 20_000))),
        ("alc://eval/sketch-2_1745000000", ("eval", "sketch-2_1745000000", ())),
        ("alc://packages/x/narrative", ("narrative", "x", ())),
        ("alc://hub//index", ("index", "index", ())),
    ],
)
def test_what_passes_is_a_target(home: Home, uri: str, target: tuple[str, str, tuple[int, ...]]) -> None:
    found = target_of(home, uri)

    assert (found.uri, found.kind, found.id, found.values) == (uri, *target)
    listed = listed_target(found.kind, found.id)
    assert target_of(home, listed.uri) == listed


@pytest.mark.parametrize(
    ("identity", "strict", "relaxed"),
    [
        ("sketch_1", True, True),
        ("a-b_1", True, True),
        ("plan_solve_1745000000", False, True),
        ("ab_mcts_x_1", False, True),
        ("compare_a_1_vs_b_2", False, False),
        ("compare_plan_solve_1_vs_b_2", False, False),
        ("compare_1", True, True),
        ("compare_a_vs_b_2", False, True),
        ("a__1", False, False),
        ("_1", False, False),
        ("_a_1", False, False),
        ("a_b", False, False),
        ("a_1\n", False, False),
        ("a_\u0661", False, False),
    ],
)
def test_eval_ids_are_strict_unless_told_otherwise(identity: str, strict: bool, relaxed: bool) -> None:
    assert (is_eval_id(identity, "strict"), is_eval_id(identity, "relaxed")) == (strict, relaxed)


def test_other_schemes_are_refused_by_alc_only_where_it_is_alone(home: Home) -> None:
    from tests.support.memory_provider import Shelf

    alone, among = home.catalog(), Catalog([home.provider(), Shelf("notes", {"a": "text"})])

    assert refusal(alone, "nobody:///x")[1] == "invalid scheme: expected alc://, got nobody:///x"
    with pytest.raises(RequestError) as caught:
        among.read("nobody:///x")
    assert caught.value.message == "Unknown scheme: nobody:///x"
    assert refusal(among, "ALC://x")[1] == "invalid scheme: expected alc://, got ALC://x"


def problem_of(catalog: Catalog, uri: str) -> RequestError | None:
    try:
        catalog.find(uri)
    except RequestError as error:
        return error
    return None


@given(st.text(max_size=60))
def test_whatever_is_sent_gives_a_target_or_an_error_of_the_page(text: str) -> None:
    catalog = Catalog([Alc(Project("/nowhere", {"HOME": "/nowhere"}))])
    for uri in (text, f"alc://{text}", f"alc://cards/{text}", f"{LOG}?{text}"):
        problem = problem_of(catalog, uri)
        if problem is not None and problem.data.get("parameter") not in ("start", "length", "lines", "outline"):
            assert problem.code == -32602
            assert problem.message.isprintable()
            assert len(problem.message) < 800
            assert isinstance(problem, NotFound) == problem.message.startswith("resource not found: ")
