"""Evidence: what fleet itself sees of a run, and what its agent claims.

Comments number the kinds of evidence from E1 to E8.

spawn        E1: what was started, and the state before
stream       E2: the events that the agent printed
gathering    E3: the transcript; E4: the processes; and all evidence together
tree         E5: the changed files and commits, as git shows them
claims       E6: the claims of the agent, compared with the evidence
verified     E7: the verify command at the end; E8: the verify command at the base
formalities  tool calls that are no work
receipts     the receipt that keeps the finding and its evidence
"""
