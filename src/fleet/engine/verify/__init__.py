"""The parts of a verification: changes that judge the branch, and the meaning of the command's result.

commandline  the files and programs that a verify command names
judges       changes of a branch to the files that judge it
tricks       texts in a file that could deceive a test runner
counts       test counts in the output, and doubts about exit code 0
reach        programs and files outside of the checkout that can change the result
seclusion    the isolation of the command
"""
