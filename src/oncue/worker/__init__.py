"""The Python worker: claims jobs, runs their handlers, sends heartbeats and results."""
