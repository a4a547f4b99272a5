"""Proof of work: evidence about a run, its receipt, verification, and scope.

Imports everything below, and the supervisor's commands. Used by the supervisor, hosts and actions.

baseline             record the state before a run (evidence E1)
branch_verification  verify what a run left on its branch (E7, E8)
claims               compare an agent's claims with the evidence (E6)
evidence             gather the evidence about a run that has ended
receipt              write the receipt of a run
stream               what the agent's stream showed (E2)
tree                 what changed in git (E5)
scope/               find writes outside of the workspace
verify/              run the verify command at a commit
"""
