"""Search over everything that is served: ranked, never stale, with the caller's access.

`search` has the one function that every face calls, `answers` the records that go in and out of it. Beneath, `query`
reads what was typed, `index` keeps what is known of all documents in one SQLite file, `ranking` orders what is found,
and `passages` shows the best lines of a fresh text; these know nothing of access. Nothing here is imported before
somebody searches.
"""
