"""The command line: each command parses its words, calls one action, and prints.

Imports actions and everything below. Nothing imports it.

accounts       `fleet accounts`
asking         questions and notices to a user at the terminal before a command continues
backup         `fleet backup` and `fleet restore`
coders         `fleet coders`
completion     `fleet completion`
config         `fleet config`
conflicts      `fleet conflicts`
creating       `fleet create`, `fanout` and `multi`
demo           `fleet demo`
doctor         `fleet doctor`
errors         the only place where errors become text on stderr and an exit code
examples       the examples at the end of each command's help
foreground     the supervisor process
gc             `fleet gc`
help           `fleet help` and `fleet version`
hosts          `fleet hosts`
init           `fleet init`
killing        `fleet stop` and `fleet kill`
lazy_click     click's decorators for the commands that people and agents run most, without the import of click
listing        `fleet list`
looking        `fleet logs`, `attach` and `diff`
main           the root of the command line
making         the common part of `fleet create`, `fanout` and `multi`, after their command lines are parsed
mcp            `fleet mcp`
merging        `fleet merge`
options        options that several commands share
person         the caller of a command
picking        `fleet pick` and `fleet compare`
questions      `fleet questions` and `fleet answer`
queue          `fleet queue`
receipts       `fleet receipt` and `fleet verify`
requests       `fleet pr`
run            `fleet run`
running        `fleet tasks`
runs           `fleet runs`
stats          `fleet stats` and `fleet cost`
status         `fleet status`
steering       `fleet prompt` and `fleet interrupt`
stopping       `fleet retry`, `done`, `pause`, `resume`, `wait`
supervisor     `fleet supervisor` and `fleet log`
tables         tables and amounts on the terminal
task           `fleet task`
tasks          `fleet ready` and `fleet show`
trust          `fleet trust`
update         `fleet update`
workflow       `fleet workflow`
workflow_runs  `fleet workflow run` and the commands on its runs
bd/            the `bd` command
"""
