"""Questions for `bench.tokens`: what is asked, what is searched for, and how the answer is recognised."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a repository.

    `query` is what a model searches for, `word` what it greps for, `answer` an expression that the answer matches.
    """

    repository: str
    kind: str
    question: str
    query: str
    word: str
    answer: str
    scheme: str = ""


def _defined(repository: str, *rows: tuple[str, str]) -> list[Question]:
    """Return questions about where names are defined."""
    return [
        Question(repository, "definition", f"Where is {name} defined?", name, name, answer) for name, answer in rows
    ]


def _asked(repository: str, kind: str, *rows: tuple[str, str, str, str]) -> list[Question]:
    return [Question(repository, kind, *row) for row in rows]


def _known(kind: str, scheme: str, *rows: tuple[str, str, str, str]) -> list[Question]:
    return [Question("desk", kind, *row, scheme=scheme) for row in rows]


QUESTIONS: Final[tuple[Question, ...]] = (
    *_defined(
        "library",
        ("StreamReader", r"class StreamReader\b"),
        ("TaskGroup", r"class TaskGroup\b"),
        ("wait_for", r"async def wait_for\b"),
        ("HTTPConnection", r"class HTTPConnection\b"),
        ("SimpleCookie", r"class SimpleCookie\b"),
        ("BaseHTTPRequestHandler", r"class BaseHTTPRequestHandler\b"),
        ("JSONDecoder", r"class JSONDecoder\b"),
        ("RotatingFileHandler", r"class RotatingFileHandler\b"),
        ("decode_header", r"def decode_header\b"),
        ("MagicMock", r"class MagicMock\b"),
    ),
    *_asked(
        "library",
        "semantic",
        ("How is a chunked HTTP response read?", "read chunked response", "chunked", r"def _read_chunked|chunk_left"),
        ("How does a cookie quote its value?", "quote cookie value", "quote", r"def _quote\b"),
        ("Where does logging roll over by time?", "rollover at time interval", "rollover", r"def computeRollover\b"),
        ("How are mock calls compared?", "assert mock was called with", "assert_called", r"def assert_called_with\b"),
        ("Who boxes several tasks as one future?", "gather futures", "gather", r"def gather\("),
        ("How is a JSON string escaped?", "escape json string ascii", "escape", r"ESCAPE_ASCII|py_encode_basestring"),
        ("How are tests discovered?", "discover tests in directory", "discover", r"def discover\b"),
        ("How is a MIME boundary made?", "make boundary multipart", "boundary", r"def _make_boundary\b"),
    ),
    *_asked(
        "library",
        "use",
        (
            "What calls _make_subprocess_transport?",
            r"/\._make_subprocess_transport\(/",
            "_make_subprocess_transport",
            r"self\._make_subprocess_transport\(",
        ),
        (
            "Who uses _LoopBoundMixin?",
            "_LoopBoundMixin",
            "_LoopBoundMixin",
            r"\(mixins\._LoopBoundMixin\)|_LoopBoundMixin,",
        ),
        ("Who calls shouldRollover?", r"/\.shouldRollover\(/", "shouldRollover", r"if self\.shouldRollover\("),
        (
            "Who calls get_content_charset?",
            r"/\.get_content_charset\(/",
            "get_content_charset",
            r"\.get_content_charset\(",
        ),
    ),
    *_defined(
        "carrel",
        ("LazySearch", r"class LazySearch\b"),
        ("answer_length", r"def answer_length\b"),
        ("estimate_tokens", r"def estimate_tokens\b"),
        ("UriTemplate", r"class UriTemplate\b"),
        ("ProviderContract", r"class ProviderContract\b"),
        ("BoundedCalls", r"class BoundedCalls\b"),
        ("KeptFolders", r"class KeptFolders\b"),
        ("Shortlist", r"class Shortlist\b"),
    ),
    *_asked(
        "carrel",
        "semantic",
        (
            "How is a folder opened without following links?",
            "open beneath a folder handle without links",
            "NOFOLLOW",
            r"O_NOFOLLOW|RESOLVE_BENEATH",
        ),
        ("Where are secret names refused?", "secret names deny", "secret", r"secret"),
        ("How does a client cancel a request?", "cancel request notification", "cancelled", r"cancelled"),
        ("How is the root of a project found?", "find project root marks", "root", r"def find_\w+|nearest folder"),
        ("How are HTTP tokens checked?", "verify bearer token", "bearer", r"[Bb]earer"),
        ("What is an ETag made of?", "etag of a file state", "etag", r"def etag_of\b"),
        ("Which settings may a stranger's project change?", "trust settings of a project", "trust", r"[Tt]rust"),
    ),
    *_asked(
        "carrel",
        "test",
        ("Which test covers the shortest list?", "test shortlist guaranteed entries", "shortlist", r"def test_\w*"),
        (
            "Which test covers a budget of search?",
            "test whole answer keeps the budget path:tests",
            "budget",
            r"def test_the_whole_answer_keeps_the_budget",
        ),
        (
            "Which test covers guide size?",
            "test guide fits whatever there is path:tests",
            "guide_fits",
            r"def test_the_guide_fits_whatever_there_is",
        ),
        ("Which test covers killed sage writes?", "sage killing test path:tests", "sage_killing", r"sage_killing"),
        (
            "Which test covers host cuts?",
            "no host cuts a part path:tests",
            "no_host_cuts",
            r"def test_no_host_cuts_a_part",
        ),
    ),
    *_known(
        "failure",
        "logs",
        ("What failed in the last build?", "error", "ERROR", r"getter temperature is not defined"),
        ("In which file did the nightly build fail?", "ERROR forecast.dart", "ERROR", r"lib/forecast\.dart:17"),
        ("Did part 1234 compile?", "part_1234", "part_1234", r"compiled lib/part_1234\.dart"),
        ("How long did part 877 take?", '"lib/part_877.dart"', "part_877", r"part_877\.dart in 12 ms"),
    ),
    *_known(
        "decision",
        "sage",
        ("Where do we keep tokens?", "keep tokens", "token", r"secure storage"),
        ("What was decided about retries?", "retries of failed calls", "retries", r"retry at most twice"),
        ("What was decided about caching forecasts?", "cache forecasts how long", "forecast", r"ten minutes"),
        ("What was decided about the map library?", "map library", "map", r"vector tiles"),
        ("What failed with local storage?", "local storage failure", "storage", r"[Aa]ny script on the page"),
        ("What was decided about languages?", "translations languages", "translation", r"Norwegian first"),
        ("What was decided about offline use?", "offline use", "offline", r"last forecast is shown"),
        ("What was decided about push messages?", "push messages", "push", r"only for storms"),
    ),
    *_known(
        "task",
        "scopes",
        ("What is the task about the API?", "implement api", "API", r"task-1|Implement API"),
        ("Which task is about weather alerts?", "weather alerts", "alerts", r"alerts"),
        ("Which task is about the tablet layout?", "tablet layout", "tablet", r"tablet"),
        ("Which task is about crash reports?", "crash reports", "crash", r"crash"),
        ("Which task is about the widget on the home screen?", "home screen widget", "widget", r"home screen"),
        ("Which task is about dark colours?", "dark theme colours", "dark", r"dark"),
    ),
)
