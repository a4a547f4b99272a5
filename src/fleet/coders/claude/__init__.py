"""Claude Code: `claude -p` with a JSON stream in both directions.

adapter  the coder: its command, environment and abilities
session  read the file in which claude keeps a session
stream   parse claude's stream of JSON
"""
