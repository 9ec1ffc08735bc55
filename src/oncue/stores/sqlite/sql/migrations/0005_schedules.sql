-- Schedules, how far they have come, and what became of their last occurrences.

-- At the end of the row and outside the statement that inserts ordinary jobs, so it costs them nothing.
ALTER TABLE jobs ADD COLUMN schedule TEXT;

-- A change of the settings gives the row another revision, and none is used again, so whoever decided
-- on older settings finds nothing to apply it to.
CREATE TABLE schedules (
  revision INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  cron TEXT,
  every_ms INTEGER CHECK (every_ms >= 1000),
  timezone TEXT NOT NULL,
  queue TEXT NOT NULL,
  payload BLOB NOT NULL,
  owner TEXT,
  event_type TEXT,
  resource_id TEXT,
  catch_up TEXT NOT NULL CHECK (catch_up IN ('once', 'all', 'skip')),
  overlap TEXT NOT NULL CHECK (overlap IN ('allow', 'skip', 'queue')),
  paused INTEGER NOT NULL CHECK (paused BETWEEN 0 AND 1),
  anchor_at INTEGER NOT NULL,
  zone_digest TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  next_at INTEGER,
  wake_at INTEGER,
  last_at INTEGER,
  last_job_id TEXT,
  -- How many outcomes were recorded: the place of the next one in the ring below.
  recorded INTEGER NOT NULL DEFAULT 0 CHECK (recorded >= 0),
  CHECK ((cron IS NULL) <> (every_ms IS NULL)),
  CHECK ((cron IS NULL) = (zone_digest = '')),
  CHECK ((event_type IS NULL) = (resource_id IS NULL)),
  CHECK ((next_at IS NULL) = (wake_at IS NULL)),
  CHECK (next_at > last_at OR next_at IS NULL OR last_at IS NULL)
) STRICT;
CREATE UNIQUE INDEX schedules_name ON schedules (name);
CREATE INDEX schedules_waking ON schedules (wake_at) WHERE paused = 0 AND wake_at IS NOT NULL;
CREATE INDEX schedules_zone ON schedules (timezone, zone_digest) WHERE zone_digest <> '';

-- A ring: the newest outcome of a schedule takes the place of the oldest.
CREATE TABLE outcomes (
  schedule TEXT NOT NULL,
  place INTEGER NOT NULL,
  number INTEGER NOT NULL,
  fate TEXT NOT NULL
    CHECK (fate IN ('created', 'emitted', 'missed', 'overlapped', 'paused', 'withdrawn')),
  at INTEGER NOT NULL,
  until INTEGER NOT NULL,
  decided_at INTEGER NOT NULL,
  count INTEGER CHECK (count >= 1),
  job_id TEXT,
  PRIMARY KEY (schedule, place),
  CHECK (until >= at)
) STRICT, WITHOUT ROWID;
