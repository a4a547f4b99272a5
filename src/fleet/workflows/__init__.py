"""Workflows: read and check files, unroll them into a plain graph, and fill the prompts of stages. Pure.

Imports core and files. Used by the supervisor, actions and interfaces.

check         check the graph: order, cycles, stages that cannot start
conditions    evaluate conditions on earlier results
faults        errors with their places in the file
ids           ids of workflows and of their stages' tasks
plan          unroll loops and fans into plain stages
references    resolve names in prompts and conditions
results       read results of stages
stage_prompt  fill the prompt of a stage
templates     the templates that come with fleet
written       a workflow file with all types checked
reading/      read JSON, TOML and YAML with places
"""
