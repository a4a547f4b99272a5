"""A corpus of scripted runs over all findings: honest work of many shapes, many ways to fake it, and other ends.

    case.py      what a case is, and the words its script is written in
    honest.py, honest_claims.py, fakes.py, fake_claims.py, others.py    the cases
    agent.py     the program that plays a script: it stands in for claude, and speaks as it does
    projects.py  the repositories that they work in
    playing.py   plays cases through the real program, in one home
    auditing.py  whether the work of a case is right, looked at without fleet
    table.py     how well the findings fit

`PYTHONPATH=tests python -m corpus [NAME…]` plays some of them, or all, and prints what became of each.
"""
