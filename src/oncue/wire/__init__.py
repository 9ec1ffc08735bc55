"""The shapes of JSON: one Struct each, for requests, answers, the OpenAPI description, the client,
`--json` and dump files."""
