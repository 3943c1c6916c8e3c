"""All providers as one: lists, reads, permissions and changes.

Every face reads through `Catalog`, so that all of them apply the same rules.
"""
