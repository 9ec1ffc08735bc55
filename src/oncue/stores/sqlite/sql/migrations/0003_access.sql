-- Access tokens of the HTTP API. `digest` is the SHA-256 of the text; the text itself is not kept.
CREATE TABLE access_tokens (
  id TEXT PRIMARY KEY,
  name TEXT,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  scopes TEXT NOT NULL CHECK (scopes <> ''),  -- by name, in order, with a space between
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
