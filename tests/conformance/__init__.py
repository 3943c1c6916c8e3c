"""The official conformance suite, against a fixture app and against the product."""
