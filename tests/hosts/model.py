"""A model on loopback that follows a script, for any host. It records every request, also those it refuses.

It is the hosts' proxy as well: what they try to reach elsewhere is refused and named in `outside`.
"""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tests.hosts.apis import APIS, Api, spell_events
from tests.hosts.script import Answer, Call, Called, Json, Say, Step, Turn

ASIDE = Say("A short title")
"""The answer to what a host asks beside the conversation, such as a title for it."""


class Model:
    """A scripted model. Requests without tools are asides: they take no step of the script."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        """The requests of the conversation, each with the whole conversation so far."""
        self.asides: list[Turn] = []
        self.outside: list[str] = []
        """What a host tried to reach beside the model."""
        self.faults: list[str] = []
        """Steps that could not be taken, with the reason."""
        self.results: dict[str, str] = {}
        """By the name of the step: the answer of the tool, as the model got it."""
        self._script: dict[str, Step] = {}
        self._last: tuple[str, Call] | None = None
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where the model listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def follow(self, script: Mapping[str, Step]) -> None:
        """Set the steps to take, in order, each with a name."""
        self._script = dict(script)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, turn: Turn) -> Answer:
        """Record a request and take the next step of the script."""
        with self._lock:
            if not turn.tools:
                self.asides.append(turn)
                return ASIDE
            self.turns.append(turn)
            name, step = self._next_step(turn)
            self._last = (name, step) if isinstance(step, Call) else None
            return self._call(step, turn) if isinstance(step, Call) else step

    def _next_step(self, turn: Turn) -> tuple[str, Step]:
        """Keep the answer to the last step, and return the next one, or the last again if its answer asks for that."""
        if self._last is not None and turn.results:
            name, last = self._last
            self.results[name] = turn.results[-1]
            if last.again_while and last.again_while in turn.results[-1]:
                return name, last
        if not self._script:
            return "", Say("The script is over.")
        name = next(iter(self._script))
        return name, self._script.pop(name)

    def _call(self, step: Call, turn: Turn) -> Answer:
        tool = turn.find_tool(step.tool, step.server)
        if tool is None:
            self.faults.append(f"no tool {step.tool} among {sorted(turn.tools)}, hidden: {sorted(turn.hidden)}")
            self._script.clear()
            return Say(self.faults[-1])
        return Called(str(len(self.turns)), tool, step.arguments_for(turn))


class _Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for a model."""

    model: Model
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request to the model."""
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length) if length else self._chunks()
        path = self.path.partition("?")[0]
        api = next((api for api in APIS for known in api.paths if path.endswith(known)), None)
        if api is None or self.path.startswith("http"):
            self._refuse()
            return
        body: Json = json.loads(sent)
        try:
            turn = api.parse(body)
        except (KeyError, TypeError) as error:
            self.model.faults.append(f"{self.path} is spelled in a new way ({error!r}): {sent[:2000]!r}")
            raise
        answer = self.model.answer(turn)
        if body.get("stream") or ":stream" in path:
            self._reply("text/event-stream", spell_events(api.spell(answer, body)) + _end_of(api))
        else:
            self._reply("application/json", json.dumps(api.spell_whole(answer, body)).encode())

    def _chunks(self) -> bytes:
        sent = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                sent += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return sent

    def _refuse(self) -> None:
        self.model.outside.append(f"{self.command} {self.path}")
        self.close_connection = True
        self._reply("application/json", b'{"error": {"message": "not here"}}', 404)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Refuse every other method of HTTP, also those of a proxy."""
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _reply(self, kind: str, body: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def _end_of(api: Api) -> bytes:
    return b"data: [DONE]\n\n" if api.paths == ("/v1/chat/completions",) else b""
