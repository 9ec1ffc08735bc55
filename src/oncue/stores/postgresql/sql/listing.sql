-- Pages are merged from parts of the indexes: due time and id of their first jobs after a place. A part
-- is found by a jump in its index, however long it is. Of each part the first entry is read, and more
-- only of those parts whose first entry can be on the page. In all that follows, `line` is the part.

-- name: after_start
(due_at, id) > (:due_at, :id) AND due_at <= :until

-- name: from_head
(due_at, id) >= (line.due_at, line.id)
  AND due_at <= coalesce((SELECT max(due_at) FROM head HAVING count(*) = :limit), :until)

-- name: in_line
state = 'scheduled' AND not_before IS NULL
  AND queue = line.queue AND shard = line.shard AND rank = line.rank

-- name: put_off_in_line
state = 'scheduled' AND not_before IS NOT NULL
  AND queue = line.queue AND shard = line.shard AND rank = line.rank

-- name: taken_of
state IN ('dispatched', 'executing') AND queue = line.queue

-- name: final_of
finished_at IS NOT NULL AND NOT hidden AND queue = line.queue AND state = line.state

-- Jobs in line. With `:uncovered`, without those inside an open range: a line begins behind them.
-- name: waiting
WITH RECURSIVE line (queue, shard, rank) AS (
  (SELECT queue, shard, rank FROM oncue.jobs
   WHERE state = 'scheduled' AND not_before IS NULL AND queue >= :first_queue AND queue <= :last_queue
   ORDER BY queue, shard, rank LIMIT 1)
  UNION ALL
  SELECT following.* FROM line CROSS JOIN LATERAL (
    SELECT queue, shard, rank FROM oncue.jobs
    WHERE state = 'scheduled' AND not_before IS NULL AND queue <= :last_queue
      AND (queue, shard, rank) > (line.queue, line.shard, line.rank)
    ORDER BY queue, shard, rank LIMIT 1) AS following
), behind AS (
  SELECT line.*,
    CASE WHEN (held.due_at, held.id) > (:due_at, :id) THEN held.due_at ELSE :due_at END AS low_due,
    CASE WHEN (held.due_at, held.id) > (:due_at, :id) THEN held.id ELSE :id END AS low_id
  FROM line LEFT JOIN LATERAL (
    SELECT CASE WHEN line.rank = r.through_rank AND r.through_due <= r.cutoff
        THEN r.through_due ELSE r.cutoff + 1 END AS due_at,
      CASE WHEN line.rank = r.through_rank AND r.through_due <= r.cutoff
        THEN r.through_id ELSE '' END AS id
    FROM oncue.ranges AS r
    WHERE :uncovered AND r.queue = line.queue AND r.shard = line.shard AND r.holder IS NOT NULL
      AND line.rank <= r.through_rank) AS held ON true
), head AS MATERIALIZED (
  SELECT line.*, first.due_at, first.id FROM behind AS line CROSS JOIN LATERAL (
    SELECT due_at, id FROM oncue.jobs
    WHERE {in_line} AND (due_at, id) > (line.low_due, line.low_id) AND due_at <= :until
    ORDER BY due_at, id LIMIT 1) AS first
  ORDER BY first.due_at, first.id LIMIT :limit
)
SELECT found.due_at, found.id FROM head AS line CROSS JOIN LATERAL (
  SELECT due_at, id FROM oncue.jobs WHERE {in_line} AND {from_head}
  ORDER BY due_at, id LIMIT :limit) AS found
ORDER BY found.due_at, found.id LIMIT :limit;

-- Jobs in line that an open range covers.
-- name: covered
WITH RECURSIVE line (queue, shard, cutoff, through_rank, through_due, through_id, rank) AS (
  SELECT r.queue, r.shard, r.cutoff, r.through_rank, r.through_due, r.through_id, first.rank
  FROM oncue.ranges AS r CROSS JOIN LATERAL (
    SELECT rank FROM oncue.jobs
    WHERE state = 'scheduled' AND not_before IS NULL AND queue = r.queue AND shard = r.shard
      AND rank <= r.through_rank
    ORDER BY rank LIMIT 1) AS first
  WHERE r.holder IS NOT NULL AND r.queue >= :first_queue AND r.queue <= :last_queue
  UNION ALL
  SELECT line.queue, line.shard, line.cutoff, line.through_rank, line.through_due, line.through_id,
    following.rank
  FROM line CROSS JOIN LATERAL (
    SELECT rank FROM oncue.jobs
    WHERE state = 'scheduled' AND not_before IS NULL AND queue = line.queue AND shard = line.shard
      AND rank > line.rank AND rank <= line.through_rank
    ORDER BY rank LIMIT 1) AS following
), ahead AS (
  SELECT line.*,
    CASE WHEN rank = through_rank AND through_due <= cutoff THEN through_due ELSE cutoff + 1 END
      AS high_due,
    CASE WHEN rank = through_rank AND through_due <= cutoff THEN through_id ELSE '' END AS high_id
  FROM line
), head AS MATERIALIZED (
  SELECT line.*, first.due_at, first.id FROM ahead AS line CROSS JOIN LATERAL (
    SELECT due_at, id FROM oncue.jobs
    WHERE {in_line} AND {after_start} AND (due_at, id) <= (line.high_due, line.high_id)
    ORDER BY due_at, id LIMIT 1) AS first
  ORDER BY first.due_at, first.id LIMIT :limit
)
SELECT found.due_at, found.id FROM head AS line CROSS JOIN LATERAL (
  SELECT due_at, id FROM oncue.jobs
  WHERE {in_line} AND {from_head} AND (due_at, id) <= (line.high_due, line.high_id)
  ORDER BY due_at, id LIMIT :limit) AS found
ORDER BY found.due_at, found.id LIMIT :limit;

-- name: put_off
WITH RECURSIVE line (queue, shard, rank) AS (
  (SELECT queue, shard, rank FROM oncue.jobs
   WHERE state = 'scheduled' AND not_before IS NOT NULL
     AND queue >= :first_queue AND queue <= :last_queue
   ORDER BY queue, shard, rank LIMIT 1)
  UNION ALL
  SELECT following.* FROM line CROSS JOIN LATERAL (
    SELECT queue, shard, rank FROM oncue.jobs
    WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue <= :last_queue
      AND (queue, shard, rank) > (line.queue, line.shard, line.rank)
    ORDER BY queue, shard, rank LIMIT 1) AS following
), head AS MATERIALIZED (
  SELECT line.*, first.due_at, first.id FROM line CROSS JOIN LATERAL (
    SELECT due_at, id FROM oncue.jobs WHERE {put_off_in_line} AND {after_start}
    ORDER BY due_at, id LIMIT 1) AS first
  ORDER BY first.due_at, first.id LIMIT :limit
)
SELECT found.due_at, found.id FROM head AS line CROSS JOIN LATERAL (
  SELECT due_at, id FROM oncue.jobs WHERE {put_off_in_line} AND {from_head}
  ORDER BY due_at, id LIMIT :limit) AS found
ORDER BY found.due_at, found.id LIMIT :limit;

-- name: taken
WITH RECURSIVE line (queue) AS (
  (SELECT queue FROM oncue.jobs
   WHERE state IN ('dispatched', 'executing') AND queue >= :first_queue AND queue <= :last_queue
   ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT following.* FROM line CROSS JOIN LATERAL (
    SELECT queue FROM oncue.jobs
    WHERE state IN ('dispatched', 'executing') AND queue > line.queue AND queue <= :last_queue
    ORDER BY queue LIMIT 1) AS following
), head AS MATERIALIZED (
  SELECT line.*, first.due_at, first.id FROM line CROSS JOIN LATERAL (
    SELECT due_at, id FROM oncue.jobs WHERE {taken_of} AND {after_start}
    ORDER BY due_at, id LIMIT 1) AS first
  ORDER BY first.due_at, first.id LIMIT :limit
)
SELECT found.due_at, found.id FROM head AS line CROSS JOIN LATERAL (
  SELECT due_at, id FROM oncue.jobs WHERE {taken_of} AND {from_head}
  ORDER BY due_at, id LIMIT :limit) AS found
ORDER BY found.due_at, found.id LIMIT :limit;

-- name: final
WITH RECURSIVE line (queue, state) AS (
  (SELECT queue, state FROM oncue.jobs
   WHERE finished_at IS NOT NULL AND NOT hidden AND queue >= :first_queue AND queue <= :last_queue
   ORDER BY queue, state LIMIT 1)
  UNION ALL
  SELECT following.* FROM line CROSS JOIN LATERAL (
    SELECT queue, state FROM oncue.jobs
    WHERE finished_at IS NOT NULL AND NOT hidden AND queue <= :last_queue
      AND (queue, state) > (line.queue, line.state)
    ORDER BY queue, state LIMIT 1) AS following
), head AS MATERIALIZED (
  SELECT line.*, first.due_at, first.id FROM line CROSS JOIN LATERAL (
    SELECT due_at, id FROM oncue.jobs WHERE {final_of} AND {after_start}
    ORDER BY due_at, id LIMIT 1) AS first
  WHERE :state::text IS NULL OR line.state = :state
  ORDER BY first.due_at, first.id LIMIT :limit
)
SELECT found.due_at, found.id FROM head AS line CROSS JOIN LATERAL (
  SELECT due_at, id FROM oncue.jobs WHERE {final_of} AND {from_head}
  ORDER BY due_at, id LIMIT :limit) AS found
ORDER BY found.due_at, found.id LIMIT :limit;

-- name: owned
SELECT due_at, id FROM oncue.jobs WHERE owner = :owner AND NOT hidden AND {after_start}
ORDER BY due_at, id LIMIT :limit;

-- name: keyed
SELECT due_at, id FROM oncue.jobs WHERE key = :key AND NOT hidden AND {after_start}
ORDER BY due_at, id LIMIT :limit;

-- Those of some jobs that are wanted, up to `:limit` and to `:room` bytes; how many there were. Values
-- that are stored apart are read for the answer only.
-- name: rows
SELECT {jobs.columns}, j.total FROM (
  SELECT j.*, count(*) OVER () AS total, row_number() OVER earlier AS place,
    sum(j.size) OVER earlier - j.size AS before
  FROM (
    SELECT j.*, octet_length(j.payload) + coalesce(octet_length(j.result), 0) AS size
    FROM oncue.jobs AS j
    WHERE j.id = ANY(:ids::text[]) AND (:queue::text IS NULL OR j.queue = :queue)
      AND (:key::text IS NULL OR j.key = :key)
      AND (:state::text IS NULL
        OR CASE WHEN {jobs.covered} THEN 'dispatched' ELSE j.state END = :state)) AS j
  WINDOW earlier AS (ORDER BY j.due_at, j.id ROWS UNBOUNDED PRECEDING)) AS j
WHERE j.place <= :limit AND j.before < :room
ORDER BY j.place;
