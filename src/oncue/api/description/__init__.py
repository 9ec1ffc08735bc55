"""The words, examples and problems with which routes are described."""
