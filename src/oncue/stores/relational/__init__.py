"""What the stores on SQL have in common: rules, events, schedules, access tokens and nodes.

Each store has the statements in its own dialect, under the same names, with the same parameters and
columns (`sql/rules.sql`, `events.sql`, `rules_transfer.sql`, `schedules.sql`, `access.sql`,
`nodes.sql`), a transaction that runs them (`tx.py`), and what `part.py` asks for.
"""
