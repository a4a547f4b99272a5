"""Proof of work: evidence about a run, its receipt, verification, and scope.

Imports core, settings, store, git and agents. Used by the supervisor and actions.

baseline             what was started, and the state before, kept with the run from its start for its receipt (E1)
branch_verification  verification of what a run left on its branch, if a verify command is set (E7 and E8)
claims               an agent's claims compared with the evidence (E6)
evidence             everything known about an ended run, as evidence for its finding and as parts of its receipt
receipt              the receipt of a run
stream               what an agent's stream showed, from its recorded events (E2)
tree                 the changes of files as git shows them, read through fleet's view, never with an agent's hooks or
scope/               scope
verify/              verification
"""
