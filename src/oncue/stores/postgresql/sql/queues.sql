-- name: all
SELECT name, settings, paused FROM oncue.queues ORDER BY name;

-- name: named
SELECT name, settings, paused, turns, filled_at FROM oncue.queues WHERE name = ANY(:names::text[]);

-- name: lock_named
SELECT name, settings, paused, turns, filled_at FROM oncue.queues WHERE name = ANY(:names::text[])
ORDER BY name FOR UPDATE;

-- name: put
INSERT INTO oncue.queues (name, settings, paused, keeps_history)
VALUES (:name, :settings, :paused, :keeps_history)
ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, paused = excluded.paused,
  keeps_history = excluded.keeps_history;

-- name: put_bucket
UPDATE oncue.queues SET turns = :turns, filled_at = :filled_at WHERE name = :name;

-- name: changed
UPDATE oncue.revision SET settings = settings + 1;

-- name: revision
SELECT settings FROM oncue.revision;

-- Changes with every change of a queue. One that jobs have made raises no revision, and only the number
-- of queues; one that is deleted raises both.
-- name: mark
SELECT settings, (SELECT count(*) FROM oncue.queues) FROM oncue.revision;

-- Waiting jobs are in two indexes: those in line, and those that are put off.
-- name: in_use
SELECT EXISTS (SELECT 1 FROM oncue.jobs
               WHERE queue = :name AND state = 'scheduled' AND not_before IS NULL)
    OR EXISTS (SELECT 1 FROM oncue.jobs
               WHERE queue = :name AND state = 'scheduled' AND not_before IS NOT NULL)
    OR EXISTS (SELECT 1 FROM oncue.jobs
               WHERE queue = :name AND state IN ('dispatched', 'executing')),
  (SELECT min(name) FROM oncue.schedules WHERE queue = :name AND event_type IS NULL),
  (SELECT min(name) FROM oncue.rules WHERE queue = :name AND NOT deleted),
  EXISTS (SELECT 1 FROM oncue.queues WHERE name = :name);

-- name: delete
DELETE FROM oncue.queues WHERE name = :name;

-- How many are in line, how many of these are covered by a range, how many are put off.
-- name: count_waiting
SELECT
  (SELECT count(*) FROM oncue.jobs
   WHERE state = 'scheduled' AND not_before IS NULL AND queue = :name),
  (SELECT count(*) FROM oncue.ranges AS r JOIN oncue.jobs AS j
     ON j.queue = r.queue AND j.shard = r.shard AND j.due_at <= r.cutoff
       AND (j.rank, j.due_at, j.id) <= (r.through_rank, r.through_due, r.through_id)
   WHERE r.queue = :name AND r.holder IS NOT NULL
     AND j.state = 'scheduled' AND j.not_before IS NULL),
  (SELECT count(*) FROM oncue.jobs
   WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue = :name);

-- name: count_taken
SELECT state, count(*) FROM oncue.jobs
WHERE state IN ('dispatched', 'executing') AND queue = :name GROUP BY state;

-- name: count_final
SELECT state, count(*) FROM oncue.jobs
WHERE finished_at IS NOT NULL AND NOT hidden AND queue = :name GROUP BY state;

-- name: due_counts
SELECT :start::bigint + step * :step::bigint, sum(jobs)::bigint FROM (
  SELECT (due_at - :start::bigint) / :step::bigint AS step, count(*) AS jobs FROM oncue.jobs
  WHERE state = 'scheduled' AND not_before IS NULL AND queue = :name AND due_at >= :start
    AND due_at < :until
  GROUP BY 1
  UNION ALL
  SELECT (due_at - :start::bigint) / :step::bigint, count(*) FROM oncue.jobs
  WHERE state = 'scheduled' AND not_before IS NOT NULL AND queue = :name AND due_at >= :start
    AND due_at < :until
  GROUP BY 1) AS counted
GROUP BY step ORDER BY step;

-- name: oldest_finished
SELECT q.name, f.finished_at FROM oncue.queues AS q CROSS JOIN LATERAL (
  SELECT finished_at FROM oncue.jobs
  WHERE finished_at IS NOT NULL AND NOT hidden AND queue = q.name
  ORDER BY finished_at LIMIT 1) AS f;

-- name: prunable
SELECT id FROM oncue.jobs
WHERE finished_at IS NOT NULL AND NOT hidden AND queue = :name AND finished_at < :before
ORDER BY finished_at, id LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: prune
DELETE FROM oncue.jobs WHERE id = ANY(:ids::text[])
  AND (digest IS NULL OR finished_at < :forgotten_before) RETURNING id;

-- name: hide
UPDATE oncue.jobs SET hidden = true, forget_at = finished_at + :remembered_ms, past = NULL,
  result_bytes = 0
WHERE id = ANY(:ids::text[]);

-- name: forgettable
SELECT id FROM oncue.jobs WHERE hidden AND forget_at < :now ORDER BY forget_at LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: is_forgettable
SELECT coalesce((SELECT forget_at FROM oncue.jobs WHERE hidden ORDER BY forget_at LIMIT 1) < :now,
  false);

-- name: settings
SELECT settings FROM oncue.queues WHERE name = :name;

-- name: notify
SELECT pg_notify(:channel, notice) FROM unnest(:notices::text[]) AS notice;
