"""The store that hosts share: PostgreSQL.

connection  a pool of connections, transactions and errors
link        one connection: address, encryption and timeouts
store       open the store; notifications and health
"""
