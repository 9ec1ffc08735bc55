-- name: insert
INSERT INTO jobs (id, queue, due_at, payload, priority, created_at, updated_at, owner, key,
                  expires_at, max_attempts, timeout_seconds, digest, epoch)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- A transaction of its own, which stores nothing if one of the queues is missing. Rows and names of
-- queues have as many places as are needed; those that are empty are passed over.
-- name: insert_at_once
INSERT INTO jobs (id, queue, due_at, payload, priority, created_at, updated_at)
SELECT column1, column2, column3, column4, column5, column6, column6
FROM (VALUES (?,?,?,?,?,?))
WHERE column1 IS NOT NULL AND (SELECT count(*) FROM queues WHERE name IN (?)) = ?;

-- name: insert_fired
INSERT INTO jobs (id, queue, due_at, payload, priority, created_at, updated_at, rule, instant)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8);

-- name: columns
j.id, j.queue,
CASE WHEN j.state = 'scheduled' AND r.queue IS NOT NULL THEN 'dispatched' ELSE j.state END,
j.due_at, j.payload, j.priority, j.attempt, j.created_at, j.updated_at, j.owner, j.key,
j.expires_at, j.max_attempts, j.timeout_seconds, j.finished_at, j.result, j.error, j.message,
j.percent, j.cancel_requested, j.epoch, j.worker, j.lease_until, j.attempt_base, j.rule, j.instant,
j.schedule, j.not_before, j.refusals

-- name: with_range
jobs AS j LEFT JOIN ranges AS r ON j.state = 'scheduled' AND {ranges.covers}

-- name: get
SELECT {columns} FROM {with_range} WHERE j.id = :id AND j.hidden = 0;

-- name: get_even_hidden
SELECT {columns} FROM {with_range} WHERE j.id = :id;

-- name: digest
SELECT digest FROM jobs WHERE id = :id;

-- name: key_holder
SELECT id FROM jobs WHERE queue = :queue AND key = :key AND finished_at IS NULL;

-- name: replace
UPDATE jobs SET due_at = :due_at, payload = :payload, updated_at = :now, not_before = NULL, refusals = 0
WHERE id = :id AND state = 'scheduled';

-- name: attempts
-- The last one is in the job's own row: it is under way, or it finished the job.
SELECT attempt, epoch, claimed_at, worker, outcome, ended_at FROM (
  SELECT seq, attempt, epoch, claimed_at, worker, outcome, ended_at FROM attempts WHERE n = :n
  UNION ALL
  SELECT 9223372036854775807, attempt, epoch, claimed_at, worker,
    CASE WHEN finished_at IS NOT NULL THEN state END, finished_at
  FROM jobs WHERE n = :n AND claimed_at IS NOT NULL)
ORDER BY seq;

-- name: operations
SELECT name, state, updated_at, percent, message, result FROM operations
WHERE n = :n AND seq >= :start ORDER BY seq LIMIT :limit;

-- name: diagnostics
SELECT at, code, detail, attempt, epoch, facts FROM diagnostics WHERE n = :n ORDER BY seq;

-- name: number
SELECT n FROM jobs WHERE id = :id AND hidden = 0;

-- name: page_scheduled
SELECT {columns} FROM {with_range}
WHERE j.state = 'scheduled' AND j.queue = :queue AND j.line = :line
  AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: page_taken
SELECT {columns} FROM {with_range}
WHERE j.state IN ('dispatched', 'executing') AND j.queue = :queue
  AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: page_final
SELECT {columns} FROM {with_range}
WHERE j.finished_at IS NOT NULL AND j.queue = :queue AND j.state = :state AND j.hidden = 0
  AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: page_owner
SELECT {columns} FROM {with_range}
WHERE j.owner = :owner AND j.hidden = 0
  AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: page_key
SELECT {columns} FROM {with_range}
WHERE j.key = :key AND j.hidden = 0
  AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: lines
WITH RECURSIVE level (line) AS (
  SELECT min(line) FROM jobs WHERE state = 'scheduled' AND queue = :queue
  UNION ALL
  SELECT (SELECT min(line) FROM jobs
          WHERE state = 'scheduled' AND queue = :queue AND line > level.line)
  FROM level WHERE level.line < :below
)
SELECT line, (SELECT min(due_at) FROM jobs
              WHERE state = 'scheduled' AND queue = :queue AND line = level.line)
FROM level WHERE line < :below;

-- name: open_ranges
SELECT queue, cutoff, through_rank FROM ranges
WHERE cutoff IS NOT NULL AND queue BETWEEN :first_queue AND :last_queue;

-- The first entry after a position in each part of an index that a page is merged from: a seek or two
-- for each queue, inside SQLite. Due time and id are one text, which sorts as they do.

-- name: heads_scheduled
WITH RECURSIVE level (queue, line) AS (
  SELECT name, (SELECT min(line) FROM jobs WHERE state = 'scheduled' AND queue = name)
  FROM queues WHERE name BETWEEN :first_queue AND :last_queue
  UNION ALL
  SELECT queue, (SELECT min(j.line) FROM jobs AS j
                 WHERE j.state = 'scheduled' AND j.queue = level.queue AND j.line > level.line)
  FROM level WHERE line IS NOT NULL
)
SELECT * FROM (
  SELECT (SELECT printf('%016d', j.due_at) || j.id FROM jobs AS j
          WHERE j.state = 'scheduled' AND j.queue = level.queue AND j.line = level.line
            AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
          ORDER BY j.due_at, j.id LIMIT 1) AS head, queue, line
  FROM level WHERE line IS NOT NULL)
WHERE head IS NOT NULL ORDER BY head LIMIT :limit;

-- name: heads_taken
SELECT * FROM (
  SELECT (SELECT printf('%016d', j.due_at) || j.id FROM jobs AS j
          WHERE j.state IN ('dispatched', 'executing') AND j.queue = name
            AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
          ORDER BY j.due_at, j.id LIMIT 1) AS head, name
  FROM queues WHERE name BETWEEN :first_queue AND :last_queue)
WHERE head IS NOT NULL ORDER BY head LIMIT :limit;

-- name: heads_final
SELECT * FROM (
  SELECT (SELECT printf('%016d', j.due_at) || j.id FROM jobs AS j
          WHERE j.finished_at IS NOT NULL AND j.queue = name AND j.state = s.column1 AND j.hidden = 0
            AND (j.due_at, j.id) > (:due_at, :id) AND j.due_at <= :until
          ORDER BY j.due_at, j.id LIMIT 1) AS head, name, s.column1
  FROM queues, (VALUES ('succeeded'), ('failed'), ('cancelled')) AS s
  WHERE name BETWEEN :first_queue AND :last_queue AND (:state IS NULL OR s.column1 = :state))
WHERE head IS NOT NULL ORDER BY head LIMIT :limit;
