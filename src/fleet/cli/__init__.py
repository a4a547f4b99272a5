"""The command line: each command parses its words, calls one action, and prints.

Imports actions and everything below. Only `__main__` imports it.

accounts       `fleet accounts`
coders         `fleet coders`
completion     `fleet completion`
config         `fleet config`
confirmation   ask a user at the terminal, or notify them
create         `fleet create`, `fanout` and `multi`
create_agents  what `create`, `fanout` and `multi` have in common
demo           `fleet demo`
errors         turn errors into text on stderr and an exit code
examples       the examples at the end of each command's help
foreground     run the supervisor process without click
help           `fleet help` and `fleet version`
init           `fleet init`
kill           `fleet stop` and `fleet kill`
lazy_click     declare commands that are parsed without click
list_agents    `fleet list`
main           the table of commands
maintenance    `fleet doctor`, `gc`, `backup`, `restore` and `update`
mcp            `fleet mcp`
merge          `fleet merge`, `conflicts` and `pr`
messages       `fleet prompt` and `fleet interrupt`
options        options that several commands share
person         find out who called: a person, or a run by its token
pick           `fleet pick` and `fleet compare`
proof          `fleet receipt`, `verify`, `stats` and `cost`
questions      `fleet questions` and `fleet answer`
queue          `fleet queue` and `fleet hosts`
run            `fleet run`
running_tasks  `fleet tasks`
runs           `fleet runs`
status         `fleet status`
supervisor     `fleet supervisor` and `fleet log`
tables         print tables, amounts and times
task_control   `fleet retry`, `done`, `pause`, `resume`, `wait`
task_record    `fleet task`
tasks          `fleet ready` and `fleet show`
text           print issues in bd's text formats
trust          `fleet trust`
views          `fleet logs`, `attach` and `diff`
workflow       `fleet workflow`
bd/            `fleet bd`
"""
