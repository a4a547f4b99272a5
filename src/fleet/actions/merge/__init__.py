"""Merging: choose tasks, verify their work together, move a branch, and open pull requests.

choice        selection of tasks to merge
conflicts     conflict tasks
job           a merge into one branch
merge         merging tasks' work into a branch
proof         proof of a merge
records       records of merges
request_text  the text of a pull request
requests      pull requests
"""
