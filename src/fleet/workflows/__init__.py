"""Workflows: read and check files, unroll them into a plain graph, and fill the prompts of stages. Pure.

Imports core and coders' registry. Used by the supervisor and actions.

check         the dependency graph of a workflow
conditions    conditions on earlier results
faults        errors of a workflow with their places in the file, all reported together
ids           ids of workflows and of the tasks that are their stages
plan          expansion of loops and fans into plain stages
references    names for prompts and conditions
results       results of stages
stage_prompt  prompts of stages
templates     the workflow templates that come with fleet
written       a workflow as written
reading/      workflow files as data with places
"""
