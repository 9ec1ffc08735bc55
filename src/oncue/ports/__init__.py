"""The ports of oncue: what a store, a sink and a clock must do. The docstrings are the contract."""
