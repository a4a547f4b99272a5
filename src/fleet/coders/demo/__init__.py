"""The demo coder: a program that works on a task like an agent, without a model or an account.

adapter   the coder: its command and stream
agent     the program that works on a task
terminal  the same program in a terminal
"""
