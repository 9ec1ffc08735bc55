-- One table for jobs of every state. Partial indexes separate the waiting, the live and the finished
-- ones: each hot path reads only the index of its own kind. Texts are compared by their bytes (COLLATE
-- "C"), as in the other stores. Moments are milliseconds, stamps of events are microseconds.

CREATE TABLE oncue.meta (
  name text COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL
);
-- The earliest version of the schema whose programs can use these tables. A later step that they
-- cannot live with raises it; they are stopped before that step is made.
INSERT INTO oncue.meta (name, value) VALUES ('least', '1');

CREATE TABLE oncue.jobs (
  id text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  due_at bigint NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  epoch bigint NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  attempt_base integer NOT NULL DEFAULT 0,
  shard smallint NOT NULL,
  priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9),
  ahead boolean NOT NULL DEFAULT false,
  -- The line of the shard in which it waits: reclaimed work first, then by priority.
  rank smallint NOT NULL GENERATED ALWAYS AS (CASE WHEN ahead THEN 9 ELSE 19 END - priority) STORED,
  hidden boolean NOT NULL DEFAULT false,
  cancel_requested boolean NOT NULL DEFAULT false,
  alone boolean NOT NULL DEFAULT false,
  lease_asked boolean NOT NULL DEFAULT false,
  state text COLLATE "C" NOT NULL DEFAULT 'scheduled' CHECK (CASE state
    WHEN 'scheduled' THEN finished_at IS NULL AND claimed_at IS NULL AND NOT cancel_requested
    WHEN 'succeeded' THEN finished_at IS NOT NULL AND lease_until IS NULL
    WHEN 'dispatched' THEN finished_at IS NULL AND claimed_at IS NOT NULL
    WHEN 'executing' THEN finished_at IS NULL AND claimed_at IS NOT NULL
    WHEN 'failed' THEN finished_at IS NOT NULL AND lease_until IS NULL
    WHEN 'cancelled' THEN finished_at IS NOT NULL AND lease_until IS NULL
    ELSE false END),
  payload bytea NOT NULL,
  strikes integer NOT NULL DEFAULT 0,
  refusals integer NOT NULL DEFAULT 0,
  result_bytes integer NOT NULL DEFAULT 0,
  owner text COLLATE "C",
  key text COLLATE "C",
  expires_at bigint,
  max_attempts integer CHECK (max_attempts BETWEEN 1 AND 20),
  timeout_seconds double precision,
  digest bytea,
  worker text,
  -- Set while the last attempt is told by this row and not by `past`: it goes on, or it ended the job.
  claimed_at bigint,
  lease_until bigint,
  lease_ms bigint,
  overlong_at bigint,
  nonce text COLLATE "C",
  not_before bigint,
  finished_at bigint,
  -- Of a job that is gone and only remembered (hidden): until when.
  forget_at bigint,
  result bytea,
  error text,
  message text,
  percent double precision,
  rule text COLLATE "C",
  instant bigint,
  schedule text COLLATE "C",
  -- What was, as JSON (stores/past.py): attempts before the last one, diagnostics, ends of claims.
  past text,
  CONSTRAINT jobs_id PRIMARY KEY (id) WITH (deduplicate_items = off),
  CHECK (attempt >= attempt_base),
  CHECK (hidden = (forget_at IS NOT NULL))
);
-- Rows come and go all the time: their places are to be used again soon.
ALTER TABLE oncue.jobs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.1);

-- Entries that end with the id are all different. Looking for equal ones would cost a tenth of the
-- time of each change, so it is off.
CREATE INDEX jobs_ready ON oncue.jobs (queue, shard, rank, due_at, id) WITH (deduplicate_items = off)
  WHERE state = 'scheduled' AND not_before IS NULL;
CREATE INDEX jobs_put_off ON oncue.jobs (queue, rank, not_before)
  WHERE state = 'scheduled' AND not_before IS NOT NULL;
CREATE INDEX jobs_put_off_due ON oncue.jobs (queue, shard, rank, due_at, id) WITH (deduplicate_items = off)
  WHERE state = 'scheduled' AND not_before IS NOT NULL;
CREATE INDEX jobs_expiring ON oncue.jobs (expires_at, id)
  WHERE state = 'scheduled' AND expires_at IS NOT NULL;
CREATE INDEX jobs_live ON oncue.jobs (least(lease_until, overlong_at), id) WITH (deduplicate_items = off)
  WHERE state IN ('dispatched', 'executing');
CREATE INDEX jobs_taken ON oncue.jobs (queue, due_at, id) WITH (deduplicate_items = off)
  WHERE state IN ('dispatched', 'executing');
CREATE INDEX jobs_final ON oncue.jobs (queue, state, due_at, id) WITH (deduplicate_items = off)
  WHERE finished_at IS NOT NULL AND NOT hidden;
CREATE INDEX jobs_finished ON oncue.jobs (queue, finished_at, id) WITH (deduplicate_items = off)
  WHERE finished_at IS NOT NULL AND NOT hidden;
CREATE INDEX jobs_hidden ON oncue.jobs (forget_at) WHERE hidden;
CREATE INDEX jobs_owner ON oncue.jobs (owner, due_at, id) WHERE owner IS NOT NULL AND NOT hidden;
CREATE INDEX jobs_keyed ON oncue.jobs (key, due_at, id) WHERE key IS NOT NULL AND NOT hidden;
CREATE UNIQUE INDEX jobs_key ON oncue.jobs (queue, key) WHERE key IS NOT NULL AND finished_at IS NULL;

CREATE TABLE oncue.operations (
  job_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  seq integer NOT NULL,
  state text NOT NULL CHECK (state IN ('executing', 'succeeded', 'failed')),
  updated_at bigint NOT NULL,
  percent double precision,
  message text,
  result bytea,
  PRIMARY KEY (job_id, name)
);
CREATE UNIQUE INDEX operations_seq ON oncue.operations (job_id, seq);

-- `settings`: as JSON; {}: never set. `keeps_history` follows from them. The bucket of its rate: turns in billionths, as counted at
-- `filled_at`.
CREATE TABLE oncue.queues (
  name text COLLATE "C" PRIMARY KEY,
  settings text NOT NULL DEFAULT '{}',
  paused boolean NOT NULL DEFAULT false,
  keeps_history boolean NOT NULL DEFAULT true,
  turns bigint CHECK (turns >= 0),
  filled_at bigint,
  CHECK ((filled_at IS NULL) = (turns IS NULL))
);

-- The range claim of a shard. It is open while it has a holder, and covers the scheduled jobs of the
-- shard that are due by `cutoff`, up to the place (rank, due time, id) `through`.
CREATE TABLE oncue.ranges (
  queue text COLLATE "C" NOT NULL,
  shard smallint NOT NULL,
  fence bigint NOT NULL,
  holder text COLLATE "C",
  lease_until bigint NOT NULL,
  lease_ms bigint NOT NULL,
  cutoff bigint NOT NULL,
  through_rank smallint NOT NULL,
  through_due bigint NOT NULL,
  through_id text COLLATE "C" NOT NULL,
  in_flight integer NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, shard)
) WITH (fillfactor = 50);

CREATE TABLE oncue.access_tokens (
  id text COLLATE "C" PRIMARY KEY,
  name text,
  digest bytea NOT NULL CHECK (length(digest) = 32),
  scopes text NOT NULL CHECK (scopes <> ''),
  created_at bigint NOT NULL
);

-- The processes on this store, as each last said of itself (core/nodes.py).
CREATE TABLE oncue.nodes (
  id text COLLATE "C" PRIMARY KEY,
  host text NOT NULL,
  pid integer NOT NULL,
  version text NOT NULL,
  started_at bigint NOT NULL,
  seen_at bigint NOT NULL,
  engine boolean NOT NULL,
  dispatches text NOT NULL,
  works text NOT NULL,
  url text
);

-- How often the settings were changed: queues, schedules, access tokens. Who notices another number
-- reads them again.
CREATE TABLE oncue.revision (settings bigint NOT NULL);
INSERT INTO oncue.revision (settings) VALUES (0);

-- `n` is the identity of a rule: a name that is deleted and created again gets another.
CREATE TABLE oncue.rules (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  enabled boolean NOT NULL,
  queue text COLLATE "C" NOT NULL,
  payload bytea NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  last_instant bigint,
  last_job_id text COLLATE "C",
  deleted boolean NOT NULL DEFAULT false,
  -- Something was accepted, changed or deleted since it was last pruned.
  touched boolean NOT NULL DEFAULT false,
  CHECK ((last_instant IS NULL) = (last_job_id IS NULL))
);
CREATE UNIQUE INDEX rules_name ON oncue.rules (name) WHERE NOT deleted;
CREATE INDEX rules_touched ON oncue.rules (n) WHERE touched;

-- `key` is what events are matched by; with `below`, only what lies below it matches.
CREATE TABLE oncue.dependencies (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  rule_n bigint NOT NULL,
  position integer NOT NULL,
  type text NOT NULL CHECK (type IN ('FILE', 'TABLE', 'TIME_BASED')),
  resource text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  below boolean NOT NULL,
  life_seconds bigint NOT NULL CHECK (life_seconds >= 0),
  newest bigint,
  stale boolean NOT NULL DEFAULT false,
  retired boolean NOT NULL DEFAULT false
);
CREATE INDEX dependencies_key ON oncue.dependencies (type, key) WHERE NOT retired;
CREATE INDEX dependencies_rule ON oncue.dependencies (rule_n, retired, position);

-- `decided` counts the rules that decided on the event; while none did, it is only logged.
CREATE TABLE oncue.events (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL,
  type text NOT NULL CHECK (type IN ('FILE', 'TABLE', 'TIME_BASED')),
  resource text COLLATE "C" NOT NULL,
  stamp bigint NOT NULL,
  received_at bigint NOT NULL,
  decided bigint NOT NULL DEFAULT 0 CHECK (decided >= 0)
);
CREATE UNIQUE INDEX events_id ON oncue.events (id);
CREATE UNIQUE INDEX events_fact ON oncue.events (type, resource, stamp);
CREATE INDEX events_loose ON oncue.events (received_at) WHERE decided = 0;

-- What rules fire by: for each dependency, its accepted events in the order of event time.
CREATE TABLE oncue.accepted (
  dependency_n bigint NOT NULL,
  stamp bigint NOT NULL,
  event_n bigint NOT NULL,
  PRIMARY KEY (dependency_n, stamp, event_n)
);

CREATE TABLE oncue.decisions (
  rule_n bigint NOT NULL,
  event_n bigint NOT NULL,
  dependency_n bigint NOT NULL,
  decision text NOT NULL CHECK (decision IN ('ACCEPTED', 'DUPLICATE', 'STALE', 'TOO_LATE')),
  type text NOT NULL,
  resource text NOT NULL,
  life_seconds bigint NOT NULL,
  decided_at bigint NOT NULL,
  job_id text,
  suppressed text,
  times bigint NOT NULL DEFAULT 1,
  PRIMARY KEY (rule_n, event_n, dependency_n, decision)
);
CREATE INDEX decisions_kind ON oncue.decisions (decision, event_n);

-- A change of the settings gives the row another revision, and none is used again, so whoever decided
-- on older settings finds nothing to apply it to.
CREATE TABLE oncue.schedules (
  revision bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  cron text,
  every_ms bigint CHECK (every_ms >= 1000),
  timezone text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  payload bytea NOT NULL,
  owner text,
  event_type text,
  resource_id text,
  catch_up text NOT NULL CHECK (catch_up IN ('once', 'all', 'skip')),
  overlap text NOT NULL CHECK (overlap IN ('allow', 'skip', 'queue')),
  paused boolean NOT NULL,
  anchor_at bigint NOT NULL,
  zone_digest text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  next_at bigint,
  wake_at bigint,
  last_at bigint,
  last_job_id text COLLATE "C",
  -- How many outcomes were recorded: the place of the next one in the ring below.
  recorded bigint NOT NULL DEFAULT 0 CHECK (recorded >= 0),
  CHECK ((cron IS NULL) <> (every_ms IS NULL)),
  CHECK ((cron IS NULL) = (zone_digest = '')),
  CHECK ((event_type IS NULL) = (resource_id IS NULL)),
  CHECK ((next_at IS NULL) = (wake_at IS NULL)),
  CHECK (next_at > last_at OR next_at IS NULL OR last_at IS NULL)
);
CREATE UNIQUE INDEX schedules_name ON oncue.schedules (name);
CREATE INDEX schedules_waking ON oncue.schedules (wake_at) WHERE NOT paused AND wake_at IS NOT NULL;
CREATE INDEX schedules_zone ON oncue.schedules (timezone, zone_digest) WHERE zone_digest <> '';

-- A ring: the newest outcome of a schedule takes the place of the oldest.
CREATE TABLE oncue.outcomes (
  schedule text COLLATE "C" NOT NULL,
  place integer NOT NULL,
  number bigint NOT NULL,
  fate text NOT NULL
    CHECK (fate IN ('created', 'emitted', 'missed', 'overlapped', 'paused', 'withdrawn')),
  at bigint NOT NULL,
  until bigint NOT NULL,
  decided_at bigint NOT NULL,
  count bigint CHECK (count >= 1),
  job_id text COLLATE "C",
  PRIMARY KEY (schedule, place),
  CHECK (until >= at)
);
