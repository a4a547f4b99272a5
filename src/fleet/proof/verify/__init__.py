"""Verification: a command on a clean checkout, the files that judge it, and what its result proves.

commandline  find the files that a verify command names
commit       verify a commit in a clean checkout
counts       read test counts from the output of test runners
judges       find changes to the files that judge a branch
reach        compare programs and files outside of the checkout
using        lend folders such as `.venv` to the checkout, read-only
"""
