"""What the contract of providers needs to know of the greenhouse, however it is served."""

from tests.support import schemas


class GreenhouseFacts:
    """Goes before `ProviderContract` among the bases of a test that serves `beds`."""

    deadline_s = 10.0
    beds: dict[str, float]

    def missing_uri(self) -> str:
        return "greenhouse://house/beds/east"

    def variables(self) -> dict[str, str]:
        return {"bed": "north"}

    def change(self, uri: str) -> None:
        if not uri.endswith("summary"):
            raise NotImplementedError
        self.beds["north"] += 1

    def validate(self, message: bytes, version: str, method: str) -> None:
        schemas.check(message, version, method)
