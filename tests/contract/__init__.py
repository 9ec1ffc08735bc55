"""The contract that every store must pass."""
