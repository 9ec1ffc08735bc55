"""Use cases, one module a noun. The scheduler, the HTTP routes and the command line call them.

A class `…Verbs` has the methods that a scheduler and a client share. `Local…` implements them for
a store; the client has the others.
"""
