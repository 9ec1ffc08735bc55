-- One table for jobs of every state. Partial indexes are what separates the waiting, the live and
-- the finished ones: each hot path touches only the index of its own kind.

CREATE TABLE jobs (
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  queue TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'scheduled',
  due_at INTEGER NOT NULL,
  priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9),
  ahead INTEGER NOT NULL DEFAULT 0 CHECK (ahead BETWEEN 0 AND 1),
  rank INTEGER GENERATED ALWAYS AS ((1 - ahead) * 10 + 9 - priority) VIRTUAL,
  payload BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  owner TEXT,
  key TEXT,
  expires_at INTEGER,
  max_attempts INTEGER CHECK (max_attempts BETWEEN 1 AND 20),
  timeout_seconds REAL,
  digest BLOB,
  epoch INTEGER NOT NULL DEFAULT 0,
  attempt INTEGER NOT NULL DEFAULT 0,
  attempt_base INTEGER NOT NULL DEFAULT 0,
  strikes INTEGER NOT NULL DEFAULT 0,
  trail INTEGER NOT NULL DEFAULT 0,
  worker TEXT,
  claimed_at INTEGER,
  lease_until INTEGER,
  overlong_at INTEGER,
  reclaim_at INTEGER GENERATED ALWAYS AS
    (min(coalesce(lease_until, overlong_at), coalesce(overlong_at, lease_until))) VIRTUAL,
  cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested BETWEEN 0 AND 1),
  message TEXT,
  percent REAL,
  result BLOB,
  error TEXT,
  finished_at INTEGER,
  hidden INTEGER NOT NULL DEFAULT 0,
  -- One CASE, because it stops at the first match: lists of states here cost as much as the insert.
  CHECK (CASE state
    WHEN 'scheduled' THEN finished_at IS NULL AND claimed_at IS NULL AND cancel_requested = 0
    WHEN 'succeeded' THEN finished_at IS NOT NULL AND lease_until IS NULL
    WHEN 'dispatched' THEN finished_at IS NULL AND claimed_at IS NOT NULL
    WHEN 'executing' THEN finished_at IS NULL AND claimed_at IS NOT NULL
    WHEN 'failed' THEN finished_at IS NOT NULL AND lease_until IS NULL
    WHEN 'cancelled' THEN finished_at IS NOT NULL AND lease_until IS NULL
    ELSE 0 END),
  CHECK (attempt >= attempt_base)
) STRICT;

CREATE UNIQUE INDEX jobs_id ON jobs (id);
CREATE INDEX jobs_ready ON jobs (queue, rank, due_at, id) WHERE state = 'scheduled';
CREATE INDEX jobs_expiring ON jobs (expires_at, id)
  WHERE state = 'scheduled' AND expires_at IS NOT NULL;
CREATE INDEX jobs_live ON jobs (reclaim_at, id) WHERE state IN ('dispatched', 'executing');
CREATE INDEX jobs_taken ON jobs (queue, due_at, id) WHERE state IN ('dispatched', 'executing');
CREATE INDEX jobs_final ON jobs (queue, state, due_at, id)
  WHERE finished_at IS NOT NULL AND hidden = 0;
CREATE INDEX jobs_finished ON jobs (queue, finished_at)
  WHERE finished_at IS NOT NULL AND hidden = 0;
CREATE INDEX jobs_hidden ON jobs (queue, finished_at) WHERE hidden = 1;
CREATE INDEX jobs_owner ON jobs (owner, due_at, id) WHERE owner IS NOT NULL;
CREATE INDEX jobs_keyed ON jobs (key, due_at, id) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX jobs_key ON jobs (queue, key) WHERE key IS NOT NULL AND finished_at IS NULL;

-- Attempts before the current one. The current or last attempt is in the job's own row, so a job
-- that succeeds at the first attempt costs nothing here.
CREATE TABLE attempts (
  seq INTEGER PRIMARY KEY,
  n INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  claimed_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  worker TEXT,
  outcome TEXT NOT NULL
    CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'retried', 'released', 'reclaimed')),
  error TEXT
) STRICT;
CREATE INDEX attempts_job ON attempts (n, epoch, seq);

CREATE TABLE diagnostics (
  seq INTEGER PRIMARY KEY,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  code TEXT NOT NULL,
  detail TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  facts TEXT NOT NULL
) STRICT;
CREATE INDEX diagnostics_job ON diagnostics (n, seq);

CREATE TABLE operations (
  n INTEGER NOT NULL,
  name TEXT NOT NULL,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('executing', 'succeeded', 'failed')),
  updated_at INTEGER NOT NULL,
  percent REAL,
  message TEXT,
  result BLOB,
  PRIMARY KEY (n, name)
) STRICT, WITHOUT ROWID;

-- `trail` says whether a job has rows in the three tables above, so that deleting one that has none
-- looks nowhere else.
CREATE TRIGGER jobs_trail AFTER DELETE ON jobs WHEN old.trail BEGIN
  DELETE FROM attempts WHERE n = old.n;
  DELETE FROM diagnostics WHERE n = old.n;
  DELETE FROM operations WHERE n = old.n;
END;

CREATE TABLE queues (
  name TEXT PRIMARY KEY,
  settings TEXT NOT NULL DEFAULT '{}',
  paused INTEGER NOT NULL DEFAULT 0 CHECK (paused BETWEEN 0 AND 1)
) STRICT, WITHOUT ROWID;

-- The dispatcher's range claim of a queue. It is open while `cutoff` is set, and covers the
-- scheduled jobs due by `cutoff` up to and including the position (through_rank, through_due,
-- through_id) in hand-over order.
CREATE TABLE ranges (
  queue TEXT PRIMARY KEY,
  fence INTEGER NOT NULL,
  dispatcher TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  opened_at INTEGER NOT NULL,
  cutoff INTEGER,
  through_rank INTEGER NOT NULL,
  through_due INTEGER NOT NULL,
  through_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (name, value) VALUES ('secret', randomblob(32));
