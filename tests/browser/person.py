"""A person at the browser: opens pages, and sees to it that nothing happens which must not happen on any page."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request, Response, Route

WIDTHS = {"phone": (360, 740), "tablet": (820, 1100), "desk": (1280, 900)}
PWNED = "Object.defineProperty(window, 'pwned', {set(how) { carrelPwned(String(how)); }, get() { return true; }});"
"""Has every page tell the test when a script that is not ours has run."""


class Person:
    """One visitor: a page in a context of its own, and everything that went wrong on it."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.context = context
        self.origin = origin
        self.faults: list[str] = []
        self.requests: list[Request] = []
        self.responses: list[Response] = []
        self._forgiven: list[str] = []
        context.on("request", self._requested)
        context.on("response", self._answered)
        context.on("console", self._logged)
        context.on("dialog", self._asked)
        context.on("weberror", lambda error: self.faults.append(f"uncaught: {error.error}"))
        context.expose_binding("carrelPwned", lambda _, how: self.faults.append(f"a script ran: {how}"))
        context.add_init_script(PWNED)
        self.page: Page = context.new_page()

    def go(self, path: str) -> Response:
        """Open an address of the desk; return the answer to it."""
        response = self.page.goto(self.origin + path if path.startswith("/") else path)
        assert response is not None, path
        return response

    def forgive(self, *words: str) -> None:
        """Expect messages with these words, such as the status of a page that is refused."""
        self._forgiven.extend(words)

    def text(self, selector: str = "body") -> str:
        """Return what is to be read at a place of the page."""
        return self.page.locator(selector).first.inner_text()

    def row(self, name: str) -> Locator:
        """Return the row of a list that has a name, as in a folder."""
        return self.page.locator("main a.go").filter(has_text=re.compile(rf"^{re.escape(name)}\/?$"))

    def hold(self, pattern: str) -> list[Route]:
        """Hold the requests for addresses of a pattern; return the list that they are added to."""
        held: list[Route] = []
        self.page.route(pattern, lambda route: held.append(route))  # noqa: PLW0108 playwright marks the function
        return held

    def judge(self) -> None:
        """Fail if anything went wrong on any page."""
        left = [fault for fault in self.faults if not any(words in fault for words in self._forgiven)]
        assert left == [], "\n".join(left)

    def _requested(self, request: Request) -> None:
        self.requests.append(request)
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and not request.url.startswith(self.origin + "/"):
            self.faults.append(f"a request left the desk: {request.method} {request.url}")

    def _answered(self, response: Response) -> None:
        self.responses.append(response)

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _asked(self, dialog: Dialog) -> None:
        self.faults.append(f"a script ran: it opened a dialog {dialog.message!r}")
        dialog.dismiss()


@contextmanager
def visiting(
    browser: Browser,
    origin: str,
    *,
    width: Literal["phone", "tablet", "desk"] = "desk",
    scheme: Literal["light", "dark"] = "light",
    scripts: bool = True,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[Person]:
    """Yield a person with a window of a width and a colour scheme, with or without scripts; judge them at the end."""
    across, down = WIDTHS[width]
    context = browser.new_context(
        viewport={"width": across, "height": down},
        color_scheme=scheme,
        java_script_enabled=scripts,
        extra_http_headers=dict(headers or {}),
        **options,
    )
    context.set_default_timeout(10_000)
    try:
        person = Person(context, origin)
        yield person
        person.judge()
    finally:
        context.close()
