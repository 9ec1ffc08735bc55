-- name: columns
shard, fence, holder, lease_until, lease_ms, cutoff, through_rank, through_due, through_id, in_flight

-- name: of_queues
SELECT queue, {columns} FROM oncue.ranges WHERE queue = ANY(:queues::text[]);

-- name: open
SELECT queue, {columns} FROM oncue.ranges WHERE holder IS NOT NULL;

-- name: lock_open
SELECT queue, {columns} FROM oncue.ranges WHERE holder IS NOT NULL ORDER BY queue, shard FOR UPDATE;

-- A range is taken away from its holder if it is still as it was seen.
-- name: close
UPDATE oncue.ranges SET holder = NULL, fence = fence + 1, in_flight = 0
WHERE queue = :queue AND shard = :shard AND fence = :fence AND holder IS NOT NULL
  AND lease_until = :lease_until;

-- name: taken_again
ON CONFLICT (queue, shard) DO UPDATE SET fence = ranges.fence + 1, holder = excluded.holder,
  lease_until = excluded.lease_until, lease_ms = excluded.lease_ms, cutoff = excluded.cutoff,
  through_rank = excluded.through_rank, through_due = excluded.through_due,
  through_id = excluded.through_id, in_flight = excluded.in_flight
WHERE ranges.holder IS NULL

-- name: take
INSERT INTO oncue.ranges (queue, {columns})
VALUES (:queue, :shard, 1, :holder, :lease_until, :lease_ms, :cutoff, :through_rank, :through_due,
  :through_id, :in_flight)
{taken_again} RETURNING fence;

-- name: go_on
UPDATE oncue.ranges SET lease_until = greatest(lease_until, :lease_until), cutoff = :cutoff,
  through_rank = :through_rank, through_due = :through_due, through_id = :through_id,
  in_flight = :in_flight
WHERE queue = :queue AND shard = :shard AND fence = :fence AND holder IS NOT NULL
RETURNING fence;

-- name: extend
UPDATE oncue.ranges SET lease_until = greatest(lease_until, :lease_until)
WHERE queue = :queue AND shard = :shard AND fence = :fence AND holder IS NOT NULL;

-- name: move
UPDATE oncue.ranges SET lease_until = :lease_until WHERE queue = :queue AND shard = :shard;

-- name: settle
UPDATE oncue.ranges SET in_flight = :left, holder = CASE WHEN :left > 0 THEN holder END
WHERE queue = :queue AND shard = :shard AND fence = :fence AND holder IS NOT NULL;

-- Has a row also if the shard was let go under this fence before: then nothing is changed.
-- name: let_go
UPDATE oncue.ranges SET in_flight = 0, holder = NULL
WHERE queue = :queue AND shard = :shard AND fence = :fence;

-- name: lock
SELECT holder, fence FROM oncue.ranges WHERE queue = :queue AND shard = :shard FOR UPDATE;

-- The next jobs of a line behind a place, as many as fit into memory; none if somebody has taken the
-- range of the shard since it was seen: they would be read in vain.
-- name: due_jobs
SELECT id, due_at, payload, attempt + 1 AS attempt, NULL AS token, :queue::text AS queue, owner FROM (
  SELECT id, due_at, payload, attempt, owner,
    sum(octet_length(payload)) OVER (ORDER BY due_at, id ROWS UNBOUNDED PRECEDING)
      - octet_length(payload) AS before
  FROM (
    SELECT j.id, j.due_at, j.payload, j.attempt, j.owner FROM oncue.jobs AS j
    WHERE j.state = 'scheduled' AND j.not_before IS NULL AND j.queue = :queue AND j.shard = :shard
      AND j.rank = :rank AND (j.due_at, j.id) > (:after_due, :after_id) AND j.due_at <= :until
      AND (j.expires_at IS NULL OR j.expires_at > :now) AND :fence = (
        SELECT coalesce(max(fence), 0) FROM oncue.ranges WHERE queue = :queue AND shard = :shard)
    ORDER BY j.due_at, j.id LIMIT :limit) AS next) AS counted
WHERE before < :room ORDER BY due_at, id

-- name: due
{due_jobs};

-- The same, and a range that covers them is opened with the next fence, if it is still as it was seen.
-- name: take_due
WITH due AS MATERIALIZED ({due_jobs}), last AS (
  SELECT due_at, id FROM due ORDER BY due_at DESC, id DESC LIMIT 1
), taken AS (
  INSERT INTO oncue.ranges (queue, {columns})
  SELECT :queue, :shard, 1, :holder, :lease_until, :lease_ms, :until, :rank, due_at, id,
    (SELECT count(*) FROM due)
  FROM last {taken_again} AND ranges.fence = :fence RETURNING 1)
SELECT due.* FROM due CROSS JOIN taken ORDER BY due.due_at, due.id;

-- What is inside the range of a shard, in lines that begin and end so: in flight, or arrived since. Each
-- line is read from its beginning, and no further than is asked for.
-- name: lines_inside
unnest(:ranks::smallint[], :firsts::bigint[], :first_ids::text[], :last_dues::bigint[],
  :last_ids::text[]) AS line (rank, first, first_id, last_due, last_id)

-- name: inside
FROM oncue.jobs AS j
  WHERE j.state = 'scheduled' AND j.not_before IS NULL AND j.queue = :queue AND j.shard = :shard
    AND j.rank = line.rank AND (j.due_at, j.id) >= (line.first, line.first_id)
    AND (j.due_at, j.id) <= (line.last_due, line.last_id)

-- name: count_inside
SELECT count(*) FROM {lines_inside} CROSS JOIN LATERAL (SELECT 1 {inside} LIMIT :most) AS found;

-- name: all_inside
SELECT line.rank, found.due_at, found.id FROM {lines_inside} CROSS JOIN LATERAL (
  SELECT j.due_at, j.id {inside}
    AND j.due_at <= :until AND (j.expires_at IS NULL OR j.expires_at > :now)
  ORDER BY j.due_at, j.id LIMIT :most) AS found
ORDER BY line.rank, found.due_at, found.id LIMIT :most;

-- name: deliveries
SELECT id, due_at, payload, attempt + 1, NULL, :queue::text, owner FROM oncue.jobs
WHERE id = ANY(:ids::text[]) AND state || '' = 'scheduled' AND not_before IS NULL;

-- By their ids alone: the conditions on state and queue are written so that no other index is used.
-- name: delivered_gone
DELETE FROM oncue.jobs
WHERE id = ANY(:ids::text[]) AND state || '' = 'scheduled' AND queue || '' = :queue
  AND not_before IS NULL AND attempt = :attempt AND digest IS NULL;

-- name: delivered
UPDATE oncue.jobs SET state = 'succeeded', attempt = attempt + 1, worker = :holder,
  claimed_at = :claimed_at, finished_at = :now, updated_at = :now, ahead = false, error = NULL,
  refusals = 0, hidden = NOT :kept, forget_at = CASE WHEN NOT :kept THEN :forget_at::bigint END
WHERE id = ANY(:ids::text[]) AND state || '' = 'scheduled' AND queue || '' = :queue
  AND not_before IS NULL AND attempt = :attempt;
