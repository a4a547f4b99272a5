"""The store that hosts share: PostgreSQL.

connection  connections to PostgreSQL
link        one connection to a PostgreSQL server
store       the store that many hosts share
"""
