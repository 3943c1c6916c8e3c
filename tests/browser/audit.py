"""Faults in pages that tools find: axe for accessibility, the Nu validator (or html5lib) for HTML."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.browser.chromium import FETCHED

AXE = FETCHED / "node_modules/axe-core/axe.min.js"
NU = FETCHED / "node_modules/vnu-jar/build/dist/vnu.jar"
SWIFTLY = ("-Xss4m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
WORST = ("serious", "critical")


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


def barriers(page: Page) -> list[str]:
    """Return what keeps people from using a page: serious and critical findings of axe."""
    # A script of the driver, not of the page: the page's policy does not apply to it.
    page.evaluate(_axe())
    found: dict[str, Any] = page.evaluate(
        "() => axe.run(document, {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})"
    )
    assert found["passes"] or found["violations"], "axe looked at nothing"
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]} {node['any'][0]['message'] if node['any'] else ''}"
        for rule in found["violations"]
        if rule["impact"] in WORST
        for node in rule["nodes"]
    ]


def html_errors(pages: Mapping[str, str], folder: Path) -> list[str]:
    """Return the errors and warnings of the HTML of pages, given by name; of all at once, since Java starts slowly."""
    java = shutil.which("java")
    return _by_nu(java, pages, folder) if java else _by_html5lib(pages)


def _by_nu(java: str, pages: Mapping[str, str], folder: Path) -> list[str]:
    named = {}
    for number, (name, text) in enumerate(pages.items()):
        file = folder / f"{number}.html"
        file.write_text(text, encoding="utf-8")
        named[file.as_uri().replace("file:///", "file:/")] = name
    command = [java, *SWIFTLY, "-jar", str(NU), "--format", "json", "--stdout", "--exit-zero-always", str(folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return [
        f"{named[message['url']]}:{message.get('lastLine', 0)}: {message['message']}: {message.get('extract', '')}"
        for message in json.loads(said)["messages"]
        if message["type"] != "info" or message.get("subType") == "warning"
    ]


def _by_html5lib(pages: Mapping[str, str]) -> list[str]:
    import html5lib

    errors: list[str] = []
    for name, text in pages.items():
        parser = html5lib.HTMLParser()
        parser.parse(text)
        errors.extend(f"{name}:{place[0]}: {code} {values}" for place, code, values in parser.errors)
    return errors
