-- The lines of a queue in which jobs wait, each with its first job: one for each shard and rank. The
-- next line is found by a jump in the index, so it costs the same however long a line is.
-- name: heads
WITH RECURSIVE line (shard, rank, due_at, id) AS (
  (SELECT shard, rank, due_at, id FROM oncue.jobs
   WHERE state = 'scheduled' AND not_before IS NULL AND queue = asked.queue
   ORDER BY shard, rank, due_at, id LIMIT 1)
  UNION ALL
  SELECT following.shard, following.rank, following.due_at, following.id
  FROM line CROSS JOIN LATERAL (
    SELECT shard, rank, due_at, id FROM oncue.jobs
    WHERE state = 'scheduled' AND not_before IS NULL AND queue = asked.queue
      AND (shard, rank) > (line.shard, line.rank)
    ORDER BY shard, rank, due_at, id LIMIT 1) AS following
)
SELECT shard, rank, due_at, id FROM line

-- name: lines
SELECT line.shard, line.rank, line.due_at, line.id
FROM (SELECT :queue::text COLLATE "C" AS queue) AS asked CROSS JOIN LATERAL ({heads}) AS line;

-- The same for many queues; and when the first job may be taken: if a range covers it, not before the
-- lease of that has ended.
-- name: lines_of
SELECT asked.queue, line.shard, line.rank, line.due_at, line.id, coalesce(
  (SELECT r.lease_until FROM oncue.ranges AS r
   WHERE r.queue = asked.queue AND r.shard = line.shard AND r.holder IS NOT NULL
     AND line.due_at <= r.cutoff
     AND (line.rank, line.due_at, line.id) <= (r.through_rank, r.through_due, r.through_id)),
  line.due_at)
FROM unnest(:queues::text[]) AS asked (queue) CROSS JOIN LATERAL ({heads}) AS line;

-- The same for lines that are known, each from a due time and id on.
-- name: known_lines
SELECT line.shard, line.rank, first.due_at, first.id
FROM unnest(:shards::smallint[], :ranks::smallint[], :floors::bigint[], :floor_ids::text[])
  AS line (shard, rank, floor, floor_id) CROSS JOIN LATERAL (
  SELECT due_at, id FROM oncue.jobs
  WHERE state = 'scheduled' AND not_before IS NULL AND queue = :queue
    AND shard = line.shard AND rank = line.rank AND (due_at, id) >= (line.floor, line.floor_id)
  ORDER BY due_at, id LIMIT 1) AS first;

-- The first job of a line behind a place.
-- name: first_behind
SELECT due_at, id FROM oncue.jobs
WHERE state = 'scheduled' AND not_before IS NULL AND queue = :queue AND shard = :shard AND rank = :rank
  AND (due_at, id) > (:due_at, :id)
ORDER BY due_at, id LIMIT 1;

-- name: first_due
SELECT j.id FROM oncue.jobs AS j
WHERE state = 'scheduled' AND not_before IS NULL AND queue = :queue AND shard = :shard AND rank = :rank
  AND (due_at, id) >= (:floor, :floor_id) AND due_at <= :now AND (expires_at IS NULL OR expires_at > :now)
ORDER BY due_at, id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: lock_due
{first_due};

-- The same over several shards of one rank, where jobs that a range covers are left out. The first
-- ones are found without locks, then locked; how many were found says whether there may be more.
-- name: lock_due_merged
SELECT j.id, first.found FROM (
  SELECT c.id, c.due_at, count(*) OVER () AS found
  FROM unnest(:shards::smallint[], :floors::bigint[], :floor_ids::text[]) AS s (shard, floor, floor_id)
  CROSS JOIN LATERAL (
    SELECT j.id, j.due_at FROM oncue.jobs AS j
    WHERE j.state = 'scheduled' AND j.not_before IS NULL AND j.queue = :queue AND j.shard = s.shard
      AND j.rank = :rank AND (j.due_at, j.id) >= (s.floor, s.floor_id) AND j.due_at <= :now
      AND (j.expires_at IS NULL OR j.expires_at > :now) AND NOT ({jobs.covered})
    ORDER BY j.due_at, j.id LIMIT :look) AS c
  ORDER BY c.due_at, c.id LIMIT :look) AS first
JOIN oncue.jobs AS j ON j.id = first.id
WHERE j.state || '' = 'scheduled' AND j.not_before IS NULL AND j.queue || '' = :queue
  AND j.due_at + 0 <= :now
ORDER BY first.due_at, first.id LIMIT :limit FOR UPDATE OF j SKIP LOCKED;

-- As `core/job.py: Claimed`, without operations; then the nonce, and whether the job has a past.
-- name: taken
j.id, j.queue, j.due_at, j.payload, j.priority, j.owner, j.key, j.attempt, j.attempt_base,
j.max_attempts, j.timeout_seconds, j.epoch, j.claimed_at, j.lease_until, j.created_at, j.expires_at,
j.error, j.message, j.percent, j.rule, j.instant, j.schedule, j.nonce, j.past IS NOT NULL

-- name: taking
UPDATE oncue.jobs AS j SET state = 'dispatched', epoch = j.epoch + 1, attempt = j.attempt + 1,
  worker = t.worker, claimed_at = :now, updated_at = :now, lease_until = :now + t.lease_ms,
  lease_ms = t.lease_ms, lease_asked = false, alone = t.alone, nonce = t.nonce,
  overlong_at = :now + round(coalesce(j.timeout_seconds, t.timeout_seconds) * 1000)::bigint

-- name: take
{taking}
FROM unnest(:ids::text[], :workers::text[], :leases::bigint[], :timeouts::double precision[],
  :alones::boolean[], :nonces::text[]) AS t (id, worker, lease_ms, timeout_seconds, alone, nonce)
WHERE j.id = t.id
RETURNING {taken};

-- The first due jobs of a line, locked and taken by one worker.
-- name: take_first
WITH first AS MATERIALIZED ({first_due}), t AS MATERIALIZED (
  SELECT id, :worker::text AS worker, :lease_ms::bigint AS lease_ms, count(*) OVER () = 1 AS alone,
    :timeout_seconds::double precision AS timeout_seconds, :nonce::text AS nonce
  FROM first)
{taking}
FROM t WHERE j.id = t.id
RETURNING {taken};

-- Claims of a call whose answer got lost. Reads the live claims.
-- name: claimed_by
UPDATE oncue.jobs AS j SET lease_until = greatest(j.lease_until, :now + coalesce(j.lease_ms, 0)),
  updated_at = :now
WHERE state IN ('dispatched', 'executing') AND lease_until IS NOT NULL AND starts_with(nonce, :prefix)
RETURNING {taken};

-- Jobs and their rows as they are, for `touch`.
-- name: seen
SELECT {jobs.bare_columns}, j.xmin::text FROM oncue.jobs AS j WHERE j.id = ANY(:ids::text[]);

-- name: queues_of
SELECT q.name, q.settings, q.paused, q.turns, q.filled_at FROM oncue.queues AS q
WHERE q.name IN (SELECT j.queue FROM oncue.jobs AS j WHERE j.id = ANY(:ids::text[]));

-- Signs of life of claims whose rows have not changed since they were read.
-- name: touch
UPDATE oncue.jobs AS j SET state = t.state, updated_at = t.updated_at, lease_until = t.lease_until,
  lease_ms = t.lease_ms, lease_asked = t.lease_asked, message = t.message, percent = t.percent
FROM unnest(:ids::text[], :versions::text[], :states::text[], :updated::bigint[], :untils::bigint[],
  :lengths::bigint[], :asked::boolean[], :messages::text[], :percents::double precision[])
  AS t (id, version, state, updated_at, lease_until, lease_ms, lease_asked, message, percent)
WHERE j.id = t.id AND j.xmin::text = t.version
RETURNING j.id;

-- name: count_live
SELECT count(*) FROM (
  SELECT 1 FROM oncue.jobs WHERE state IN ('dispatched', 'executing') AND queue = :queue
  LIMIT :limit) AS live;

-- The first jobs of all queues that have expired since a moment, and those of them that would be taken.
-- name: of_expired_due
FROM (
  SELECT id, queue, due_at, not_before FROM oncue.jobs
  WHERE state = 'scheduled' AND expires_at IS NOT NULL AND expires_at <= :now AND expires_at > :since
  ORDER BY expires_at, id LIMIT :limit) AS j
WHERE j.queue = :queue AND j.due_at <= :until AND (j.not_before IS NULL OR j.not_before <= :now)

-- name: expired_due
SELECT j.id {of_expired_due};

-- name: is_expired_due
SELECT EXISTS (SELECT 1 {of_expired_due});

-- name: first_expired
SELECT expires_at FROM oncue.jobs
WHERE state = 'scheduled' AND expires_at IS NOT NULL AND expires_at <= :now ORDER BY expires_at LIMIT 1;

-- name: expired
SELECT j.id FROM oncue.jobs AS j
WHERE j.state = 'scheduled' AND j.expires_at IS NOT NULL AND j.expires_at <= :now
  AND NOT ({jobs.covered})
ORDER BY j.expires_at, j.id LIMIT :limit;

-- The ranks of put-off jobs of a queue, found by jumps in the index.
-- name: put_off_ranks
WITH RECURSIVE of_rank (rank) AS (
  (SELECT rank FROM oncue.jobs
   WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue = asked.queue ORDER BY rank LIMIT 1)
  UNION ALL
  SELECT following.rank FROM of_rank CROSS JOIN LATERAL (
    SELECT rank FROM oncue.jobs
    WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue = asked.queue
      AND rank > of_rank.rank
    ORDER BY rank LIMIT 1) AS following
)
SELECT rank FROM of_rank

-- name: returning
-- Put-off jobs of each rank whose moment has come, the first to return first.
SELECT back.id, of_rank.rank, back.not_before
FROM (SELECT :queue::text COLLATE "C" AS queue) AS asked
CROSS JOIN LATERAL ({put_off_ranks}) AS of_rank CROSS JOIN LATERAL (
  SELECT id, not_before FROM oncue.jobs
  WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue = :queue AND rank = of_rank.rank
    AND not_before <= :now
  ORDER BY not_before LIMIT :limit) AS back;

-- name: back_in_line
UPDATE oncue.jobs SET not_before = NULL
WHERE id = ANY(:ids::text[]) AND state = 'scheduled' AND not_before <= :until
RETURNING due_at, rank;

-- When the first put-off job of each of these queues returns.
-- name: returns_of
SELECT asked.queue, min(first.not_before) FROM unnest(:queues::text[]) AS asked (queue)
CROSS JOIN LATERAL ({put_off_ranks}) AS of_rank CROSS JOIN LATERAL (
  SELECT not_before FROM oncue.jobs
  WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue = asked.queue AND rank = of_rank.rank
  ORDER BY not_before LIMIT 1) AS first
GROUP BY asked.queue;

-- Every other settlement is decided on by core. A job that is not kept is remembered for the length of
-- a lease: this write may be repeated; and for a day, if a client chose its id.
-- name: complete
UPDATE oncue.jobs AS j SET state = 'succeeded', finished_at = :now, updated_at = :now,
  lease_until = NULL, lease_ms = NULL, lease_asked = false, overlong_at = NULL, ahead = false,
  error = NULL, result = t.result, (hidden, forget_at) = (
    SELECT count(*) > 0, CASE WHEN count(*) > 0 THEN :now + greatest(
      round(1000 * max((q.settings::json ->> 'lease_seconds')::float8))::bigint,
      CASE WHEN j.digest IS NOT NULL THEN :remembered_ms::bigint END) END
    FROM oncue.queues AS q WHERE q.name = j.queue AND NOT q.keeps_history)
FROM unnest(:ids::text[], :epochs::bigint[], :results::bytea[]) AS t (id, epoch, result)
WHERE j.id = t.id AND j.epoch = t.epoch AND (j.state || '') IN ('dispatched', 'executing')
RETURNING j.id, j.queue, j.hidden;

-- name: live_claims
SELECT {jobs.bare_columns} FROM oncue.jobs AS j
WHERE j.state IN ('dispatched', 'executing') AND (j.queue, j.due_at, j.id) > (:queue, :due_at, :id)
  AND (:since::bigint IS NULL OR j.updated_at < :since OR j.updated_at > :until)
ORDER BY j.queue, j.due_at, j.id LIMIT :limit;

-- name: lapsed_claims
SELECT {jobs.bare_columns} FROM oncue.jobs AS j
WHERE j.state IN ('dispatched', 'executing') AND least(j.lease_until, j.overlong_at) <= :lapsed_by
  AND (least(j.lease_until, j.overlong_at), j.id) > (:at, :id)
  AND (:since::bigint IS NULL OR j.updated_at < :since OR j.updated_at > :until)
ORDER BY least(j.lease_until, j.overlong_at), j.id LIMIT :limit;

-- name: live_count
SELECT count(*) FROM oncue.jobs WHERE state IN ('dispatched', 'executing');

-- name: leases
SELECT
  (SELECT least(lease_until, overlong_at) FROM oncue.jobs
   WHERE state IN ('dispatched', 'executing') AND least(lease_until, overlong_at) IS NOT NULL
   ORDER BY least(lease_until, overlong_at) LIMIT 1),
  (SELECT j.expires_at FROM oncue.jobs AS j
   WHERE j.state = 'scheduled' AND j.expires_at IS NOT NULL AND NOT ({jobs.covered})
   ORDER BY j.expires_at LIMIT 1),
  EXISTS (SELECT 1 FROM oncue.ranges WHERE holder IS NOT NULL),
  (SELECT value FROM oncue.meta WHERE name = 'last_look');

-- name: last_look
SELECT value FROM oncue.meta WHERE name = 'last_look' FOR UPDATE;

-- name: put_last_look
INSERT INTO oncue.meta (name, value) VALUES ('last_look', :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: lease_length
coalesce(j.lease_ms, greatest(0, j.lease_until - j.updated_at))

-- name: are_leases_astray
SELECT EXISTS (SELECT 1 FROM oncue.jobs AS j
  WHERE j.state IN ('dispatched', 'executing') AND least(j.lease_until, j.overlong_at) IS NOT NULL
    AND j.lease_until > :now + {lease_length} + :jump);

-- As `core/missed.py`: moved_lease, moved_timeout and moved_stamp, for the live claims behind a place; the
-- last of these, and how many were looked at. Rows that stay as they are are not written. What is locked
-- is being settled, perhaps in a transaction of a handler: nobody waits for that.
-- name: move_claims
WITH looked AS MATERIALIZED (
  SELECT queue, due_at, id FROM oncue.jobs
  WHERE state IN ('dispatched', 'executing') AND (queue, due_at, id) > (:queue, :due_at, :id)
  ORDER BY queue, due_at, id LIMIT :limit
), wrong AS MATERIALIZED (
  SELECT j.id FROM looked JOIN oncue.jobs AS j ON j.id = looked.id
  WHERE (j.state || '') IN ('dispatched', 'executing') AND least(j.lease_until, j.overlong_at) IS NOT NULL
    AND (:missed > 0 OR j.lease_until > :now + {lease_length} + :jump
      OR greatest(j.claimed_at, j.updated_at) > :now + :jump)
  ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
), moved AS (
  UPDATE oncue.jobs AS j SET
    lease_until = CASE WHEN j.lease_until IS NULL THEN NULL
      WHEN j.lease_until > :now + {lease_length} + :jump THEN :now + {lease_length}
      ELSE greatest(j.lease_until, least(j.lease_until + :missed, :now + {lease_length})) END,
    overlong_at = j.overlong_at + CASE WHEN j.claimed_at > :now + :jump THEN :now - j.claimed_at
      ELSE least(:missed, greatest(:now - j.claimed_at, 0)) END,
    claimed_at = CASE WHEN j.claimed_at > :now + :jump THEN :now ELSE j.claimed_at END,
    updated_at = CASE WHEN j.updated_at > :now + :jump THEN :now ELSE j.updated_at END
  FROM wrong WHERE j.id = wrong.id)
SELECT queue, due_at, id, count(*) OVER () FROM looked ORDER BY queue DESC, due_at DESC, id DESC LIMIT 1;

-- As `core/putoff.py`: moved_return. Of each queue whose put-off jobs return sooner now: when.
-- name: shorten_returns
WITH late AS MATERIALIZED (
  SELECT j.id, of_queue.latest
  FROM unnest(:queues::text[], :latest::bigint[]) AS of_queue (queue, latest)
  JOIN oncue.jobs AS j ON j.queue = of_queue.queue
  WHERE j.state = 'scheduled' AND j.not_before IS NOT NULL AND j.not_before > of_queue.latest + :jump
  ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
), moved AS (
  UPDATE oncue.jobs AS j SET not_before = late.latest FROM late WHERE j.id = late.id
  RETURNING j.queue, j.not_before)
SELECT queue, min(not_before) FROM moved GROUP BY queue;

-- name: lock_buckets
SELECT name, turns, filled_at FROM oncue.queues WHERE turns IS NOT NULL AND filled_at > :now
ORDER BY name FOR UPDATE;
