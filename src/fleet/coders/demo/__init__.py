"""The demo coder: a program that works on a task like an agent, without a model or an account.

adapter   the demo coder
agent     the demo agent
terminal  the demo agent in a terminal
"""
