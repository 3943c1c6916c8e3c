"""Addresses of buckets in settings."""

import pytest

from carrel.buckets.address import BucketAddress, check_apart, is_name, is_url, parse
from carrel.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address", "start"),
    [
        ("s3://team", BucketAddress("s3", "team"), ""),
        ("s3://team/", BucketAddress("s3", "team"), ""),
        ("S3://team.docs/hand/book/", BucketAddress("s3", "team.docs", "hand/book"), "hand/book/"),
        ("gs://team/日本", BucketAddress("gs", "team", "日本"), "日本/"),
        ("az://container/a b", BucketAddress("az", "container", "a b"), "a b/"),
    ],
)
def test_an_address_is_a_scheme_a_bucket_and_a_prefix(text: str, address: BucketAddress, start: str) -> None:
    assert (parse(text), parse(text).start, is_url(text)) == (address, start, True)
    assert parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKID:SECRET@team/docs",
        "s3://SECRET@team",
        "s3://team/docs?secret=SECRET",
        "ftp://team/SECRET",
        "s3:///SECRET",
        "s3://team//SECRET",
        "s3://team/../SECRET",
        "s3://team/a\nSECRET",
        "s3://t/SECRET",
        "SECRET",
    ],
)
def test_a_wrong_address_is_refused_and_never_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(text)
    assert "SECRET" not in str(refused.value)
    assert (
        "expected s3://" in str(refused.value) or "credentials" in str(refused.value) or "prefix" in str(refused.value)
    )


def test_buckets_of_one_name_in_two_stores_are_apart_and_those_of_one_store_are_not() -> None:
    addresses = {"docs": parse("az://docs"), "more": parse("az://docs/a"), "old": parse("s3://docs")}

    check_apart(addresses, {"docs": ("", "one"), "more": ("", "two")})
    check_apart(addresses, {"more": ("https://minio.example", "")})
    for stores in ({}, {"docs": ("", "one"), "more": ("", "one")}, {"old": ("https://minio.example", "")}):
        with pytest.raises(ConfigError, match="more and docs serve the same objects"):
            check_apart(addresses, stores)


def test_an_address_holds_what_lies_below_its_prefix() -> None:
    whole, docs, docs2 = parse("s3://team"), parse("s3://team/docs"), parse("s3://team/docs2")
    assert (whole.holds(docs), docs.holds(docs), docs.holds(whole)) == (True, True, False)
    assert not docs.holds(docs2)
    assert not whole.holds(parse("gs://team/docs"))


@pytest.mark.parametrize("name", ["", ".", "..", "a\\b", "a\0b", "a\tb", "a\x7fb"])
def test_names_that_no_store_can_be_asked_for_are_none(name: str) -> None:
    assert not is_name(name)
    assert is_name(f"x{name or '%'}y".replace("\\", "-").translate({0: "-", 9: "-", 127: "-"}))
