"""Verification: a command on a clean checkout, the files that judge it, and what its result proves.

commandline  files of the repository that a verify command names
commit       verify a commit
counts       test counts in the output of test runners, and reasons why exit code 0 proves less than it seems
judges       changes of a branch to the files that judge it
reach        programs and ignored files outside of the checkout that can change the result of a verify command
using        folders outside of the commit that a verify command uses, such as `.venv`
"""
