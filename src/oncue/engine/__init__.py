"""The loops that make jobs happen: each one is a `step()` that says how long it may rest."""
