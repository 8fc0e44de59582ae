"""The memory card: one standard page per network, with the same six questions for all networks.

`build.py` answers the questions, one module each: `remembered.py`, `duration.py`, `amount.py`, `mechanism.py`,
`failures.py` and `cost.py`. `result.py` holds the answers as plain data, which `figure.py` draws on one page.
"""
