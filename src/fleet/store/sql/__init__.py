"""The ports in an SQL database, whichever: what differs is its connection and a folder of SQL.

store        the ports of one database, each made when it is first asked for
search       tasks chosen by a filter
tasks        tasks with their labels, dependencies and comments
claims       who works on what, and until when
tokens       what tells runs from others
runs, questions, messages, accounts, receipts, collisions, workflows, hosts, workspaces, trust
rows         rows of tasks and records, for every call of `bd`
records      rows and records of all else
"""
