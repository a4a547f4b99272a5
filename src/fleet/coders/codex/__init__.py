"""Codex: `codex exec --json` and its session files.

adapter  the coder: its command, environment and abilities
session  read the file in which codex keeps a session
"""
