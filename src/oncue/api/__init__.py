"""The HTTP edge: parse, ask the scheduler, render."""
