"""Workers and workflows as MCP callers create and watch them.

create           creating workers
health           health of the worker tools and guidance on coders, for agents that create workers
task_calls       tasks that agents create and read through tools, in the same queue and within the bounds of workers
terms            terms for workers
views            workers as tools show them
wait_cursor      cursors for callers that wait
warnings         warnings for callers that create work
workers          workers
workflow_create  creating workflows
workflow_views   workflows as tools show them
workflows        existing workflows
"""
