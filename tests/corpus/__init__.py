"""A corpus of scripted runs over all findings: honest work of many forms, many ways to fake it, and other ends.

    case.py      the type of a case, and the words of its script
    honest.py, honest_claims.py, fakes.py, fake_claims.py, others.py    the cases
    agent.py     the program that plays a script: it replaces claude and uses its format
    projects.py  the repositories of the cases
    playing.py   plays cases through the real program, in one home
    auditing.py  judges the work of a case without fleet
    table.py     shows how well the findings fit

`PYTHONPATH=tests python -m corpus [NAME…]` plays some or all cases and prints the result of each.
"""
