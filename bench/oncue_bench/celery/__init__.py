"""W14: Celery. Needs celery, and Redis as its broker, which it starts."""
