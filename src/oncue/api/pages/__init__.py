"""The page at `/docs`: made from the description, with a style sheet and a script beside it."""
