"""Real processes on one store, killed at named points while they ask, claim, deliver and settle."""
