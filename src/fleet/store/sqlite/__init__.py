"""The embedded store: one SQLite file, shared by all processes of a host.

checks      health checks of a database file, and copies of it while others write
connection  one connection to the SQLite file
file        the identity of a database file
store       the embedded store
"""
