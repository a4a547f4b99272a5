"""Proof for users: receipts, statistics, and the best of several candidates.

candidates     branches to compare or pick from
compare        comparison of two branches
judge          a judge for tied candidates
keep_winner    merging the best candidate and keeping the others
pick           Picking the best of several candidates
ranking        the ranking of candidates
receipt_words  receipts in plain words
receipts       receipts for users
recheck        new receipts for existing work
stats          statistics of coders and models
"""
