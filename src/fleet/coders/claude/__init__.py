"""Claude Code: `claude -p` with a JSON stream in both directions.

adapter  Claude Code
session  the file in which claude keeps a session
stream   the stream of claude and of programs that adopted its format
"""
