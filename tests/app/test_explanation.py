"""Why a URI is served or refused."""

from pathlib import Path

import pytest

from carrel.app.app import open_desk
from carrel.app.config import load
from carrel.app.explanation import explain, failed
from carrel.catalog.access import Access, ActingAs
from carrel.core.errors import BadArgument, Denied, ProviderError
from carrel.core.model import Reading, Text


def test_an_explanation_names_the_rule_and_reveals_nothing_to_others(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", "utf-8")
    desk = open_desk(load(str(tmp_path), {"HOME": str(tmp_path.parent)}, [], {}))
    try:
        assert explain(desk.catalog, "workspace:///a.txt").reasons[-1] == "Served and listed."
        assert "(deny)" in " ".join(explain(desk.catalog, "workspace:///.env").reasons)
        assert explain(desk.catalog, "carrel://guide").reasons == ("Served.",)
        assert explain(desk.catalog, "logs://run/none").reasons[0].startswith("Not served: ")
        with pytest.raises(BadArgument):
            explain(desk.catalog, "nosuch://x")
        with ActingAs(Access("other", frozenset({"logs:read"}))), pytest.raises(Denied) as refused:
            explain(desk.catalog, "workspace:///a.txt")
        assert "workspace:read" in refused.value.message
    finally:
        desk.close()


def test_an_error_that_was_sent_as_content_is_one() -> None:
    assert failed(Reading((Text("fine"),))) is None
    assert isinstance(failed(Reading((Text("bad"),), error="invalid")), BadArgument)
    failure = failed(Reading((Text("gone"),), error="not_found"))
    assert isinstance(failure, ProviderError)
    assert failure.word == "not_found"
