"""Workflows: reading and checking of files, plans of plain stages, and the prompts of stages."""
