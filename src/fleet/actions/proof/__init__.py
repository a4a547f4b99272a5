"""Proof for users: receipts, statistics, and the best of several candidates.

candidates     find the branches to compare or pick from
compare        compare two branches
judge          ask a coder to judge tied candidates
keep_winner    merge the best candidate, and keep the others
pick           verify candidates in the same conditions, and rank them
ranking        the order of candidates, by fleet's own findings
receipt_words  receipts in plain words
receipts       find receipts, and check them for changes
recheck        verify existing work again, and record a new receipt
stats          count the results of coders and models
"""
