"""The DynamoDB store: one table, any number of nodes. ADR 0017 says how it is laid out."""
