-- Each statement walks one index in its own order, from a place on: the entries of the line of the place
-- behind (:low_due, :low_id), then those of the lines that follow, each with its key and whether the
-- change applies. The next line is found by a jump. A line without entries that can be wanted is answered
-- by a row without due time and id, so that a page is bounded by what is looked at and not by what is
-- found. The order is that of the nested loops: with an ORDER BY all lines would be visited for each page.

-- name: window
(j.due_at, j.id) > (line.low_due, line.low_id) AND j.due_at <= :until

-- name: applies
CASE j.state
  WHEN 'scheduled' THEN :scheduled AND NOT ({jobs.covered})
  WHEN 'dispatched' THEN :dispatched
  WHEN 'executing' THEN :executing
  WHEN 'failed' THEN :failed AND j.finished_at <= :begun_at
  WHEN 'cancelled' THEN :cancelled AND j.finished_at <= :begun_at
  ELSE false END

-- name: fits
(:queue::text IS NULL OR j.queue = :queue) AND (:state::text IS NULL OR j.state = :state)
  AND (:key::text IS NULL OR j.key = :key)

-- Jobs in line and put-off ones together: a job that is put off or returns meanwhile keeps its place in
-- the walk. `:ranks`, `:but_queue`: of the lines that are wanted, and the queue of those that are not.
-- name: find_waiting
WITH RECURSIVE line (queue, shard, rank, low_due, low_id, is_first) AS (
  SELECT :p0::text COLLATE "C", :p1::bigint, :p2::bigint, :low_due::bigint, :low_id::text COLLATE "C", true
  UNION ALL
  SELECT following.queue, following.shard::bigint, following.rank::bigint, :start::bigint,
    ''::text COLLATE "C", false
  FROM line CROSS JOIN LATERAL (
    SELECT queue, shard, rank FROM (
      (SELECT queue, shard, rank FROM oncue.jobs
       WHERE state = 'scheduled' AND not_before IS NULL AND queue <= :last_queue
         AND (queue, shard, rank) > (line.queue, line.shard, line.rank)
       ORDER BY queue, shard, rank LIMIT 1)
      UNION ALL
      (SELECT queue, shard, rank FROM oncue.jobs
       WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue <= :last_queue
         AND (queue, shard, rank) > (line.queue, line.shard, line.rank)
       ORDER BY queue, shard, rank LIMIT 1)) AS either
    ORDER BY queue, shard, rank LIMIT 1) AS following
)
SELECT line.queue, line.shard, line.rank, entry.due_at, entry.id, entry.applies
FROM line LEFT JOIN LATERAL (
  SELECT due_at, id, applies FROM (
    (SELECT j.due_at, j.id, NOT ({jobs.covered}) AS applies FROM oncue.jobs AS j
     WHERE j.state = 'scheduled' AND j.not_before IS NULL
       AND j.queue = line.queue AND j.shard = line.shard AND j.rank = line.rank AND {window}
     ORDER BY j.due_at, j.id LIMIT :limit)
    UNION ALL
    (SELECT j.due_at, j.id, true FROM oncue.jobs AS j
     WHERE j.state = 'scheduled' AND j.not_before IS NOT NULL
       AND j.queue = line.queue AND j.shard = line.shard AND j.rank = line.rank AND {window}
     ORDER BY j.due_at, j.id LIMIT :limit)) AS together
  WHERE line.rank = ANY(:ranks::bigint[]) AND line.queue <> :but_queue
  ORDER BY due_at, id LIMIT :limit) AS entry ON true
WHERE entry.id IS NOT NULL OR NOT line.is_first
LIMIT :limit;

-- name: find_taken
WITH RECURSIVE line (queue, low_due, low_id, is_first) AS (
  SELECT :p0::text COLLATE "C", :low_due::bigint, :low_id::text COLLATE "C", true
  UNION ALL
  SELECT following.queue, :start::bigint, ''::text COLLATE "C", false
  FROM line CROSS JOIN LATERAL (
    SELECT queue FROM oncue.jobs
    WHERE state IN ('dispatched', 'executing') AND queue > line.queue AND queue <= :last_queue
    ORDER BY queue LIMIT 1) AS following
)
SELECT line.queue, entry.due_at, entry.id, entry.applies
FROM line LEFT JOIN LATERAL (
  SELECT j.due_at, j.id, :state::text IS NULL OR j.state = :state AS applies FROM oncue.jobs AS j
  WHERE j.state IN ('dispatched', 'executing') AND j.queue = line.queue AND {window}
  ORDER BY j.due_at, j.id LIMIT :limit) AS entry ON true
WHERE entry.id IS NOT NULL OR NOT line.is_first
LIMIT :limit;

-- name: find_ended
WITH RECURSIVE line (queue, state, low_due, low_id, is_first) AS (
  SELECT :p0::text COLLATE "C", :p1::text COLLATE "C", :low_due::bigint, :low_id::text COLLATE "C", true
  UNION ALL
  SELECT following.queue, following.state, :start::bigint, ''::text COLLATE "C", false
  FROM line CROSS JOIN LATERAL (
    SELECT queue, state FROM oncue.jobs
    WHERE finished_at IS NOT NULL AND NOT hidden AND queue <= :last_queue
      AND (queue, state) > (line.queue, line.state)
    ORDER BY queue, state LIMIT 1) AS following
)
SELECT line.queue, line.state, entry.due_at, entry.id, entry.applies
FROM line LEFT JOIN LATERAL (
  SELECT j.due_at, j.id, j.finished_at <= :begun_at AS applies FROM oncue.jobs AS j
  WHERE j.finished_at IS NOT NULL AND NOT j.hidden AND j.queue = line.queue AND j.state = line.state
    AND line.state = ANY(:states::text[]) AND {window}
  ORDER BY j.due_at, j.id LIMIT :limit) AS entry ON true
WHERE entry.id IS NOT NULL OR NOT line.is_first
LIMIT :limit;

-- name: find_owned
SELECT j.due_at, j.id, {applies} AND {fits} FROM oncue.jobs AS j
WHERE j.owner = :owner AND NOT j.hidden AND (j.due_at, j.id) > (:low_due, :low_id)
  AND j.due_at <= :until
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: find_keyed
SELECT j.due_at, j.id, {applies} AND {fits} FROM oncue.jobs AS j
WHERE j.key = :key AND NOT j.hidden AND (j.due_at, j.id) > (:low_due, :low_id)
  AND j.due_at <= :until
ORDER BY j.due_at, j.id LIMIT :limit;
