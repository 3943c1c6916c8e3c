"""The team's store: one Postgres database that any number of desks share.

Providers keep their records in SQLite and files unless `[store] url` names a database. What every provider needs of it
stands here: connections, transactions, migrations, the record of changes, and named documents. The tables stand in
`migrations`; the queries stand with the providers. psycopg is imported only when a store is configured.
"""
