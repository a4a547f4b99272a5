"""The command line: each command parses its words, calls one action, and prints.

Imports actions and everything below. Nothing imports it.

accounts       `fleet accounts`
coders         `fleet coders`
completion     `fleet completion`
config         `fleet config`
confirmation   questions and notices to a user at the terminal before a command continues
create         `fleet create`, `fanout` and `multi`
create_agents  the common part of `fleet create`, `fanout` and `multi`, after their command lines are parsed
demo           `fleet demo`
errors         the only place where errors become text on stderr and an exit code
examples       the examples at the end of each command's help
foreground     the supervisor process
help           `fleet help` and `fleet version`
init           `fleet init`
kill           `fleet stop` and `fleet kill`
lazy_click     click's decorators for the commands that people and agents run most, without the import of click
list_agents    `fleet list`
main           the root of the command line
maintenance    `fleet doctor`, `gc`, `backup`, `restore` and `update`
mcp            `fleet mcp`
merge          `fleet merge`, `conflicts` and `pr`
messages       `fleet prompt` and `fleet interrupt`
options        options that several commands share
person         the caller of a command
pick           `fleet pick` and `fleet compare`
proof          `fleet receipt`, `verify`, `stats` and `cost`
questions      `fleet questions` and `fleet answer`
queue          `fleet queue` and `fleet hosts`
run            `fleet run`
running_tasks  `fleet tasks`
runs           `fleet runs`
status         `fleet status`
supervisor     `fleet supervisor` and `fleet log`
tables         tables and amounts on the terminal
task_control   `fleet retry`, `done`, `pause`, `resume`, `wait`
task_record    `fleet task`
tasks          `fleet ready` and `fleet show`
text           text formats of issues
trust          `fleet trust`
views          `fleet logs`, `attach` and `diff`
workflow       `fleet workflow`
bd/            `fleet bd`
"""
