"""Merging: choose tasks, verify their work together, move a branch, and open pull requests.

choice        select the tasks to merge, with the reasons against the others
conflicts     create tasks that resolve conflicts
job           carry out one merge: select, stack, verify, move, record
merge         what `fleet merge` calls
proof         verify the merged tasks together in a clean checkout
records       note merges in tasks, and finish interrupted merges
request_text  write the text of a pull request
requests      push branches, and open pull requests
"""
