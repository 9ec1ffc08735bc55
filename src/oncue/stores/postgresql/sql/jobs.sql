-- Whether a range covers a waiting job j.
-- name: covered
j.state = 'scheduled' AND j.not_before IS NULL AND EXISTS (
  SELECT 1 FROM oncue.ranges AS r
  WHERE r.queue = j.queue AND r.shard = j.shard AND r.holder IS NOT NULL AND j.due_at <= r.cutoff
    AND (j.rank, j.due_at, j.id) <= (r.through_rank, r.through_due, r.through_id))

-- As `records.py: read_stored` reads them. The payload may be large, and is read where it is wanted.
-- name: columns
{bare_columns}, j.payload

-- name: bare_columns
j.id, j.queue, j.due_at, j.priority, j.created_at, j.owner, j.key, j.expires_at,
j.max_attempts, j.timeout_seconds, j.digest, j.updated_at, j.state, j.attempt, j.attempt_base,
j.epoch, j.strikes, j.ahead, j.hidden, j.cancel_requested, j.worker, j.claimed_at, j.alone,
j.nonce, j.overlong_at, j.finished_at, j.result, j.error, j.message, j.percent, j.schedule,
j.not_before, j.refusals, j.result_bytes, j.rule, j.instant, j.lease_until, j.lease_ms,
j.lease_asked, j.shard, j.forget_at, j.past,
{covered}

-- The payloads of some of them.
-- name: found
SELECT {bare_columns}, CASE WHEN j.id = ANY(:whole::text[]) THEN j.payload ELSE '' END
FROM oncue.jobs AS j WHERE j.id = ANY(:ids::text[])

-- name: by_ids
{found};

-- name: lock_by_ids
{found} ORDER BY j.id FOR UPDATE OF j;

-- name: lock_free_by_ids
{found} ORDER BY j.id FOR UPDATE OF j SKIP LOCKED;

-- name: places
SELECT DISTINCT queue, shard FROM oncue.jobs WHERE id = ANY(:ids::text[]);

-- A payload or a result that stays (NULL, and not `new_result`) is not written again, however large.
-- name: save
UPDATE oncue.jobs SET queue = :queue, due_at = :due_at, priority = :priority,
  payload = coalesce(:payload, payload), result = CASE WHEN :new_result THEN :result ELSE result END,
  expires_at = :expires_at, updated_at = :updated_at, state = :state, attempt = :attempt,
  attempt_base = :attempt_base, epoch = :epoch, strikes = :strikes, ahead = :ahead, hidden = :hidden,
  cancel_requested = :cancel_requested, worker = :worker, claimed_at = :claimed_at,
  lease_until = :lease_until, lease_ms = :lease_ms, lease_asked = :lease_asked, alone = :alone,
  nonce = :nonce, overlong_at = :overlong_at, finished_at = :finished_at,
  error = :error, message = :message, percent = :percent, schedule = :schedule,
  not_before = :not_before, refusals = :refusals, result_bytes = :result_bytes, rule = :rule,
  instant = :instant, shard = :shard, forget_at = :forget_at, past = :past
WHERE id = :id;

-- Jobs that wait get the times and payloads of new ones.
-- name: replace
UPDATE oncue.jobs AS j SET due_at = new.due_at, payload = new.payload, updated_at = :now,
  not_before = NULL, refusals = 0
FROM unnest(:ids::text[], :dues::bigint[], :payloads::bytea[]) AS new (id, due_at, payload)
WHERE j.id = new.id;

-- name: remove
DELETE FROM oncue.jobs WHERE id = ANY(:ids::text[]);

-- name: remove_operations
DELETE FROM oncue.operations WHERE job_id = ANY(:ids::text[]);

-- name: ensure_queues
INSERT INTO oncue.queues (name) SELECT unnest(:queues::text[]) ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: copy
COPY oncue.jobs (id, queue, due_at, payload, priority, created_at, updated_at, shard)
FROM STDIN (FORMAT BINARY)

-- Jobs whose id or key is there are left out: the others are answered, and their queues are there from
-- then on. The locks keep these from being deleted meanwhile (queues.sql: delete). Each lock, also that
-- of an id or key which an open transaction has used, is waited for as `locks.sql: patience` says.
-- name: insert
WITH {held}, stored AS (
  INSERT INTO oncue.jobs (id, queue, due_at, payload, priority, created_at, updated_at, owner, key,
    expires_at, max_attempts, timeout_seconds, digest, epoch, shard)
  SELECT id, queue, due_at, payload, priority, created_at, created_at, owner, key, expires_at,
    max_attempts, timeout_seconds, digest, epoch, shard
  FROM unnest(:ids::text[], :queues::text[], :dues::bigint[], :payloads::bytea[],
    :priorities::smallint[], :created::bigint[], :owners::text[], :keys::text[], :expiries::bigint[],
    :max_attempts::integer[], :timeouts::double precision[], :digests::bytea[], :epochs::bigint[],
    :shards::smallint[])
    AS new (id, queue, due_at, payload, priority, created_at, owner, key, expires_at, max_attempts,
      timeout_seconds, digest, epoch, shard)
  WHERE (SELECT count(*) FROM held) >= 0
  ON CONFLICT DO NOTHING RETURNING id, queue
), {known}
SELECT id FROM stored;

-- The same for jobs that have nothing but a queue, a due time, a payload and a priority.
-- name: insert_plain
WITH {held}, stored AS (
  INSERT INTO oncue.jobs (id, queue, due_at, payload, priority, created_at, updated_at, shard)
  SELECT id, queue, due_at, payload, priority, created_at, created_at, shard
  FROM unnest(:ids::text[], :queues::text[], :dues::bigint[], :payloads::bytea[],
    :priorities::smallint[], :created::bigint[], :shards::smallint[])
    AS new (id, queue, due_at, payload, priority, created_at, shard)
  WHERE (SELECT count(*) FROM held) >= 0
  ON CONFLICT DO NOTHING RETURNING id, queue
), {known}
SELECT id FROM stored;

-- name: held
bounded AS MATERIALIZED (
  SELECT set_config('lock_timeout', :patience::text, true) WHERE :patience::text IS NOT NULL
), held AS MATERIALIZED (
  SELECT pg_advisory_xact_lock_shared(number) FROM unnest(:locks::bigint[]) AS number
  WHERE (SELECT count(*) FROM bounded) >= 0)

-- name: known
known AS (
  INSERT INTO oncue.queues (name) SELECT DISTINCT queue FROM stored ON CONFLICT (name) DO NOTHING)

-- New jobs whose id or key is there for everyone to see.
-- name: clashing
SELECT new.id FROM unnest(:ids::text[], :queues::text[], :keys::text[]) AS new (id, queue, key)
CROSS JOIN LATERAL (
  SELECT 1 FROM oncue.jobs AS j WHERE j.id = new.id
  UNION ALL
  SELECT 1 FROM oncue.jobs AS j
  WHERE j.queue = new.queue AND j.key = new.key AND j.finished_at IS NULL
  LIMIT 1) AS there;

-- The unfinished jobs that have these keys.
-- name: holders_of_keys
SELECT wanted.queue, wanted.key, holder.id
FROM unnest(:queues::text[], :keys::text[]) AS wanted (queue, key) CROSS JOIN LATERAL (
  SELECT id FROM oncue.jobs
  WHERE queue = wanted.queue AND key = wanted.key AND finished_at IS NULL LIMIT 1) AS holder;

-- name: operation_columns
name, state, updated_at, percent, message, result

-- name: operations
SELECT {operation_columns} FROM oncue.operations WHERE job_id = :id AND seq >= :start
ORDER BY seq LIMIT :limit;

-- name: operations_of
SELECT job_id, {operation_columns} FROM oncue.operations WHERE job_id = ANY(:ids::text[])
ORDER BY job_id, seq;

-- name: operation
SELECT {operation_columns} FROM oncue.operations WHERE job_id = :id AND name = :name;

-- name: count_operations
SELECT count(*) FROM oncue.operations WHERE job_id = :id;

-- name: put_operation
INSERT INTO oncue.operations (job_id, name, seq, state, updated_at, percent, message, result)
VALUES (:id, :name, :seq, :state, :updated_at, :percent, :message, :result)
ON CONFLICT (job_id, name) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at,
  percent = excluded.percent, message = excluded.message, result = excluded.result;
