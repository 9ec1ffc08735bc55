"""Stores for tests: wrappers around a real one, and what they have in common."""
