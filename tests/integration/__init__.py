"""Real processes on one SQLite file, killed and stopped for real."""
