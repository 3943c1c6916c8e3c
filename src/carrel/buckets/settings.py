"""The settings of `[buckets.NAME]`: how the bucket of the root NAME is reached."""

from collections.abc import Mapping

from carrel.core.errors import ConfigError
from carrel.core.provider import Place, Section


class BucketSettings(Section, frozen=True):
    """One section `[buckets.NAME]`."""

    endpoint: Place = Place("")
    region: str = ""
    account: str = ""
    virtual_hosted: bool = False
    anonymous: bool = False
    insecure: bool = False
    timeout_s: float = 10.0
    poll_s: float = 10.0

    def __post_init__(self) -> None:
        self.check(0.1, 300, "timeout_s")
        self.check(1, 86_400, "poll_s")
        if self.endpoint:
            check_endpoint("endpoint", self.endpoint, is_insecure=self.insecure)

    def endpoint_in(self, environment: Mapping[str, str]) -> str:
        """Return the endpoint of an S3-compatible store, from here or the environment; empty for Amazon's own."""
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        name = next((name for name in names if environment.get(name)), "")
        if self.endpoint or not name:
            return self.endpoint.rstrip("/")
        is_insecure = self.insecure or environment.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true")
        check_endpoint(name, environment[name], is_insecure=is_insecure)
        return environment[name].rstrip("/")

    def region_in(self, environment: Mapping[str, str]) -> str:
        """Return the region of an S3 store."""
        return self.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


def check_endpoint(where: str, text: str, *, is_insecure: bool) -> None:
    """Raise ConfigError for an endpoint that cannot be used; the message never repeats a password."""
    from urllib.parse import SplitResult, urlsplit  # not needed without buckets

    from carrel.core.loopback import is_in_clear

    try:
        parts = urlsplit(text)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_sound = SplitResult("", "", "", "", ""), False
    if "@" in parts.netloc:
        raise ConfigError(f"{where}: an address must not contain credentials; set them in the environment")
    if not is_sound or parts.query or parts.fragment:
        raise ConfigError(f"{where}: expected https://host, or https://host/path")
    if is_in_clear(parts) and not is_insecure:
        raise ConfigError(f"{where}: {text} is plain http to another machine; use https, or say insecure = true")
