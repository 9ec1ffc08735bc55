-- name: names
SELECT name, settings, paused FROM queues ORDER BY name;

-- name: ensure
INSERT INTO queues (name) SELECT value FROM carray(?1) WHERE true ON CONFLICT DO NOTHING;

-- name: named
SELECT name, settings, paused FROM queues WHERE name = :name;

-- name: put
INSERT INTO queues (name, settings, paused) VALUES (:name, :settings, :paused)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, paused = excluded.paused;

-- name: limits
SELECT paused, rate_per_second, concurrency, turns, filled_at, lease_until, cutoff,
  through_rank, through_due, through_id, in_flight, fence
FROM queues LEFT JOIN ranges ON ranges.queue = queues.name AND cutoff IS NOT NULL
WHERE name = :name;

-- name: put_bucket
UPDATE queues SET turns = :turns, filled_at = :at WHERE name = :name;

-- name: count_live
SELECT count(*) FROM (
  SELECT 1 FROM jobs WHERE state IN ('dispatched', 'executing') AND queue = :queue LIMIT :limit);

-- name: count_waiting
SELECT count(*) FROM jobs WHERE state = 'scheduled' AND queue = :queue;

-- name: put_off
SELECT count(*), min(not_before) FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND not_before IS NOT NULL;

-- name: count_covered
SELECT coalesce((SELECT {covered_by} FROM ranges AS r WHERE queue = :queue AND cutoff IS NOT NULL), 0);

-- How many jobs a range r covers. Line by line, so that nothing is read but what is counted: in the
-- same lines, millions may wait for later times. The + keeps SQLite from using the due time alone.
-- name: covered_by
(WITH RECURSIVE level (line) AS (
  SELECT min(line) FROM jobs WHERE state = 'scheduled' AND queue = r.queue
  UNION ALL
  SELECT (SELECT min(line) FROM jobs
          WHERE state = 'scheduled' AND queue = r.queue AND line > level.line)
  FROM level WHERE line < r.through_rank
)
SELECT coalesce(sum(CASE WHEN line < r.through_rank THEN
  (SELECT count(*) FROM jobs
   WHERE state = 'scheduled' AND queue = r.queue AND line = level.line AND due_at <= r.cutoff)
  WHEN line = r.through_rank THEN
  (SELECT count(*) FROM jobs
   WHERE state = 'scheduled' AND queue = r.queue AND line = level.line
     AND (due_at, id) <= (+r.through_due, +r.through_id) AND +due_at <= r.cutoff)
  END), 0) FROM level)

-- name: due_counts
SELECT (due_at - :start) / :step, count(*) FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND line = :line
  AND due_at >= :start AND due_at < :until
GROUP BY 1;

-- name: count_taken
SELECT state, count(*) FROM jobs
WHERE state IN ('dispatched', 'executing') AND queue = :queue GROUP BY state;

-- name: count_final
SELECT state, count(*) FROM jobs WHERE finished_at IS NOT NULL AND queue = :queue AND hidden = 0
GROUP BY state;

-- name: oldest_finished
SELECT * FROM (
  SELECT name, (SELECT min(finished_at) FROM jobs
                WHERE finished_at IS NOT NULL AND hidden = 0 AND queue = name) AS oldest
  FROM queues)
WHERE oldest IS NOT NULL;

-- name: prunable
SELECT n FROM jobs
WHERE finished_at IS NOT NULL AND hidden = 0 AND queue = :queue AND finished_at < :before
ORDER BY finished_at LIMIT :limit;

-- name: forgettable
SELECT n FROM jobs WHERE hidden = 1 AND finished_at < :before
ORDER BY finished_at LIMIT :limit;

-- name: prune
DELETE FROM jobs WHERE n IN carray(:ns) AND (digest IS NULL OR finished_at < :forget_before);

-- name: hide
UPDATE jobs SET hidden = 1 WHERE n IN carray(:ns);

-- name: in_use
SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'scheduled' AND queue = :name)
    OR EXISTS (SELECT 1 FROM jobs WHERE state IN ('dispatched', 'executing') AND queue = :name),
  (SELECT min(name) FROM schedules WHERE queue = :name AND event_type IS NULL),
  (SELECT min(name) FROM rules WHERE queue = :name AND deleted = 0),
  EXISTS (SELECT 1 FROM queues WHERE name = :name);

-- name: delete
DELETE FROM queues WHERE name = :name;

-- name: meta
SELECT value FROM meta WHERE name = :name;
