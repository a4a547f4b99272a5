"""Workflow files: read, checked, made into a plan of plain stages, and what a stage of it is told at its start."""
