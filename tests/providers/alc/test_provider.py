"""The laws that every provider obeys, held for alc."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from carrel.core.provider import Provider
from carrel.testing.contract import ProviderContract
from tests.providers.alc.homes import SKETCH, Home
from tests.support import schemas


@pytest.mark.slow
class TestAlc(ProviderContract):
    """A home with one of everything, and a log that is stored as it is sent."""

    home: Home

    @pytest.fixture(autouse=True)
    def _lay_out(self, tmp_path: Path) -> None:
        self.home = Home(tmp_path)

    def provider(self) -> Provider:
        self.home.fill()
        self.home.write("logs/s-1.json", '{"session_id":"s-1","transcript":[{"query_id":"q1"}]}')
        return self.home.provider(poll_seconds=self.poll_s)

    def change(self, uri: str) -> None:
        if uri != "alc://packages/sketch/init.lua":
            raise NotImplementedError
        self.home.write("packages/sketch/init.lua", SKETCH.replace("0.1.0", "0.10.0"))

    def variables(self) -> Mapping[str, str | Mapping[str, str]]:
        return {
            "name": "sketch",
            "card_id": "sketch_m_1",
            "result_id": "sketch_1745000000",
            "session_id": "s-1",
            "alc://scenarios/{name}": {"name": "my_scenario"},
        }

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)
