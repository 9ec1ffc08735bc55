"""Stores as earlier versions wrote them, and the proof that this version goes on with them."""
