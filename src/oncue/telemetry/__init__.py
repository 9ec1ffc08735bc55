"""What a process counts of its own work, and how that is published: Prometheus and the log."""
