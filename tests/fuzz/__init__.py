"""Random and hostile input, for a server and for what reads files and texts: `make fuzz`."""
