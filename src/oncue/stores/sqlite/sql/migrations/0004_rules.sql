-- Rules, the events they wait for, and what they decided. Stamps are microseconds of event time,
-- everything else called …_at is milliseconds.

-- At the end of the row and outside the statement that inserts ordinary jobs, so they cost it nothing.
ALTER TABLE jobs ADD COLUMN rule TEXT;
ALTER TABLE jobs ADD COLUMN instant INTEGER;

-- `n` is the identity of a rule: a name that is deleted and created again gets another.
CREATE TABLE rules (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  enabled INTEGER NOT NULL CHECK (enabled BETWEEN 0 AND 1),
  queue TEXT NOT NULL,
  payload BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  last_instant INTEGER,
  last_job_id TEXT,
  deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted BETWEEN 0 AND 1),
  -- Something was accepted, changed or deleted since it was last pruned.
  touched INTEGER NOT NULL DEFAULT 0 CHECK (touched BETWEEN 0 AND 1),
  CHECK ((last_instant IS NULL) = (last_job_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX rules_name ON rules (name) WHERE deleted = 0;
CREATE INDEX rules_touched ON rules (n) WHERE touched = 1;

-- The instants of a rule's jobs only grow, so no two jobs of it share one.
CREATE TRIGGER rules_instant BEFORE UPDATE OF last_instant ON rules
WHEN new.last_instant IS NULL OR new.last_instant <= old.last_instant BEGIN
  SELECT RAISE(ABORT, 'the instants of a rule must grow');
END;

-- `key` is what events are matched by; with `below`, only what lies below it matches.
CREATE TABLE dependencies (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  rule_n INTEGER NOT NULL,
  position INTEGER NOT NULL,
  type TEXT NOT NULL CHECK (type IN ('FILE', 'TABLE', 'TIME_BASED')),
  resource TEXT NOT NULL,
  key TEXT NOT NULL,
  below INTEGER NOT NULL CHECK (below BETWEEN 0 AND 1),
  life_seconds INTEGER NOT NULL CHECK (life_seconds >= 0),
  newest INTEGER,
  stale INTEGER NOT NULL DEFAULT 0 CHECK (stale BETWEEN 0 AND 1),
  retired INTEGER NOT NULL DEFAULT 0 CHECK (retired BETWEEN 0 AND 1)
) STRICT;
CREATE INDEX dependencies_key ON dependencies (type, key) WHERE retired = 0;
CREATE INDEX dependencies_rule ON dependencies (rule_n, retired, position);

-- `decided` counts the rules that decided on the event; while none did, it is only logged.
CREATE TABLE events (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  type TEXT NOT NULL CHECK (type IN ('FILE', 'TABLE', 'TIME_BASED')),
  resource TEXT NOT NULL,
  stamp INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  decided INTEGER NOT NULL DEFAULT 0 CHECK (decided >= 0)
) STRICT;
CREATE UNIQUE INDEX events_id ON events (id);
CREATE UNIQUE INDEX events_fact ON events (type, resource, stamp);
CREATE INDEX events_loose ON events (received_at) WHERE decided = 0;

-- What rules fire by: for each dependency, its accepted events in the order of event time.
CREATE TABLE accepted (
  dependency_n INTEGER NOT NULL,
  stamp INTEGER NOT NULL,
  event_n INTEGER NOT NULL,
  PRIMARY KEY (dependency_n, stamp, event_n)
) STRICT, WITHOUT ROWID;

CREATE TABLE decisions (
  rule_n INTEGER NOT NULL,
  event_n INTEGER NOT NULL,
  dependency_n INTEGER NOT NULL,
  decision TEXT NOT NULL CHECK (decision IN ('ACCEPTED', 'DUPLICATE', 'STALE', 'TOO_LATE')),
  type TEXT NOT NULL,
  resource TEXT NOT NULL,
  life_seconds INTEGER NOT NULL,
  decided_at INTEGER NOT NULL,
  job_id TEXT,
  suppressed TEXT,
  times INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (rule_n, event_n, dependency_n, decision)
) STRICT, WITHOUT ROWID;
CREATE INDEX decisions_kind ON decisions (decision, event_n);
