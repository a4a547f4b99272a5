"""Codex: `codex exec --json` and its session files.

adapter  Codex
session  the file in which codex keeps a session
"""
