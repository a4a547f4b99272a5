"""The store: a port for each noun, and the databases that implement them.

Imports core and files. Used through `base`; only assembly imports a database.

base            the store, and the port of each noun
named_sql       read statements from .sql files
sql_connection  what the ports need from any database
transfer        copy all rows to another database
postgres/       PostgreSQL, for hosts that share a queue
sql/            the ports, for any SQL database
sqlite/         SQLite, for one host
"""
