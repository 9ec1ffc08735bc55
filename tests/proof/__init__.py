"""The proof: one checker, ports wrapped with faults, named points at which processes die."""
