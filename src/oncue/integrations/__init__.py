"""oncue inside other people's frameworks. Each module needs its framework installed."""
