"""The loops: each is a `step()` that returns how long it may rest."""
