"""W15: PostgreSQL."""
