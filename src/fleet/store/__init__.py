"""The store: a port for each noun, and the databases that implement them.

Imports core and settings. Used through `base`; only assembly imports a database.

base            the store
named_sql       SQL in .sql files, divided into blocks that begin with a line `-- name --`
sql_connection  what the store's ports need from a database of any kind
transfer        copying all rows of one database to another
postgres/       the store that hosts share
sql/            ports of `fleet.store.base.Store`
sqlite/         the embedded store
"""
