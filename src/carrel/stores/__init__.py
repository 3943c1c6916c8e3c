"""The team's store: one Postgres database that any number of desks share.

Providers keep their records in SQLite and files unless `[store] url` names a database. This package has what all of
them need: connections, transactions, migrations, the record of changes, and named documents. The tables are in
`migrations`; the queries are in the providers. psycopg is imported only when a store is configured.
"""
