"""Buckets on this machine."""

from tests.support.s3_fixtures import bucket, s3

__all__ = ["bucket", "s3"]
