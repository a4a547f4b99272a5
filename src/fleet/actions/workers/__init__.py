"""Workers and workflows as MCP callers create and watch them.

create           create workers
health           report the health of the tools and coders to an agent
task_calls       tasks that agents create and read through tools
terms            codefleet's variables and defaults for a worker
views            workers as tools show them
wait_cursor      remember what a waiting caller was told
warnings         warn callers about work that does not start
workers          find, cancel and clean up workers
workflow_create  create all tasks of a workflow
workflow_views   workflows as tools show them
workflows        show, wait for, cancel and clean up workflows
"""
