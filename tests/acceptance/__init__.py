"""What the documents say, done: every snippet, example and claim that can be checked is."""
