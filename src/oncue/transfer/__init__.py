"""What a store holds, as files."""
