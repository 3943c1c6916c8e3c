"""The settings of a bucket, and the endpoint that the environment names."""

import pytest

from carrel.buckets.settings import BucketSettings
from carrel.core.errors import ConfigError
from carrel.core.provider import Place


def test_the_endpoint_comes_from_the_settings_before_the_environment() -> None:
    environment = {"AWS_ENDPOINT_URL": "https://store.example/", "AWS_REGION": "eu-west-1"}
    assert BucketSettings().endpoint_in(environment) == "https://store.example"
    assert (
        BucketSettings(endpoint=Place("https://own.example/s3/")).endpoint_in(environment) == "https://own.example/s3"
    )
    assert BucketSettings().endpoint_in({}) == ""
    assert BucketSettings().endpoint_in({**environment, "AWS_ENDPOINT_URL_S3": "https://s3.example"}) == (
        "https://s3.example"
    )
    assert (BucketSettings().region_in(environment), BucketSettings(region="x").region_in(environment)) == (
        "eu-west-1",
        "x",
    )
    assert BucketSettings().region_in({}) == "us-east-1"


@pytest.mark.parametrize("endpoint", ["http://store.example", "http://10.0.0.1:9000"])
def test_plain_http_is_for_this_machine_unless_it_is_allowed(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="plain http to another machine"):
        BucketSettings(endpoint=Place(endpoint))
    with pytest.raises(ConfigError, match=r"AWS_ENDPOINT_URL: .* plain http"):
        BucketSettings().endpoint_in({"AWS_ENDPOINT_URL": endpoint})
    allowed = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    assert BucketSettings().endpoint_in(allowed) == endpoint
    assert BucketSettings(endpoint=Place(endpoint), insecure=True).endpoint_in({}) == endpoint
    assert BucketSettings(endpoint=Place("http://127.0.0.1:9000")).endpoint_in({}) == "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    "endpoint",
    ["https://me:SECRET@store.example", "https://SECRET@store.example", "store.example/SECRET", "https://x/?k=SECRET"],
)
def test_an_endpoint_that_may_hold_a_secret_is_refused_and_not_repeated(endpoint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BucketSettings(endpoint=Place(endpoint))
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(("timeout_s", "poll_s"), [(0.0, 10.0), (301.0, 10.0), (10.0, 0.5), (10.0, float("inf"))])
def test_times_have_bounds(timeout_s: float, poll_s: float) -> None:
    with pytest.raises(ConfigError, match="expected a number from"):
        BucketSettings(timeout_s=timeout_s, poll_s=poll_s)
