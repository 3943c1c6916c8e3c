"""Search over everything that is served: ranked, never stale, with the caller's access.

`search` has the one function that every interface calls, `answers` has its arguments and results. `query` parses the
text of a query, `index` keeps the terms of all documents in one SQLite file, `ranking` orders the candidates, and
`passages` selects the best lines of a fresh text; these four know nothing of access. Nothing here is imported before
the first search.
"""
