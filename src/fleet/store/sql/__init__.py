"""Ports of `fleet.store.base.Store`: one class for each noun, for any SQL database.

accounts    accounts
claims      claims
hosts       hosts, and the last events of runs that each host stores for others
messages    messages to agents, their questions with the answers, and the tokens of runs
receipts    receipts of runs, and live branches that git could not merge with each other
records     conversion between rows and records of all kinds except tasks, whose rows every `bd` call imports
rows        conversion between rows and records, one function per table and direction
runs        runs
search      tasks chosen by a filter, in order
tasks       tasks with their labels, dependencies and comments
workflows   workflows with their stages, and the results of tasks
workspaces  workspaces
"""
