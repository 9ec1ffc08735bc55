-- The processes on this file, as each last said of itself. A row is believed for a lease after
-- `seen_at` (oncue/core/nodes.py). `dispatches` and `works` are names of queues, as JSON.
CREATE TABLE nodes (
  id TEXT NOT NULL PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  version TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  engine INTEGER NOT NULL,
  dispatches TEXT NOT NULL,
  works TEXT NOT NULL,
  url TEXT
) STRICT, WITHOUT ROWID;
