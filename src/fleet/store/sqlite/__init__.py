"""The embedded store: one SQLite file, shared by all processes of a host.

checks      check a database file, and copy it while others write
connection  one connection: transactions, errors and migrations
file        check that a path still leads to the opened file
store       open the store
"""
