-- name: revision
SELECT settings, queues FROM revision;

-- name: names
SELECT name FROM queues WHERE paused = 0;

-- When a job of each of these queues can be taken next: the due time of the first job in each line, or
-- the end of a put-off. Rates and the ranges of dispatchers are not considered. Jobs in the range of a
-- worker are left out; if other jobs have come into that range, the moment is 0. A queue that is at its
-- concurrency has no moment. The other columns only show whether something has changed: the first job
-- and its epoch, the range, and how many jobs are under way (NULL: the queue has no concurrency; -1: it
-- is above 1,000, so they are not counted). A few steps in an index for each queue, however many jobs wait.
-- name: moments
WITH RECURSIVE wanted (queue, fence, cutoff, most, live) AS (
  SELECT q.name, r.fence, r.cutoff, q.concurrency, CASE
    WHEN q.concurrency IS NULL THEN NULL
    WHEN q.concurrency > 1000 THEN -1
    ELSE (SELECT count(*) FROM jobs WHERE state IN ('dispatched', 'executing') AND queue = q.name)
    END
  FROM carray(:queues) AS c CROSS JOIN queues AS q ON q.name = c.value
  LEFT JOIN ranges AS r ON r.queue = q.name
  WHERE q.paused = 0
), level (queue, line) AS (
  SELECT queue, (SELECT min(line) FROM jobs WHERE state = 'scheduled' AND queue = wanted.queue)
  FROM wanted WHERE live IS NULL OR live < most
  UNION ALL
  SELECT queue, (SELECT min(line) FROM jobs
                 WHERE state = 'scheduled' AND queue = level.queue AND line > level.line)
  FROM level WHERE line < 100
)
SELECT level.queue, j.due_at, j.n, j.epoch, NULL, NULL, NULL
FROM level
LEFT JOIN ranges AS r ON r.queue = level.queue AND r.nonce IS NOT NULL AND level.line <= r.through_rank
CROSS JOIN jobs AS j
  ON j.n = (SELECT n FROM jobs
            WHERE state = 'scheduled' AND queue = level.queue AND line = level.line
              AND (due_at, id) > (
                CASE level.line WHEN r.through_rank THEN r.through_due ELSE coalesce(r.cutoff, -2) + 1 END,
                CASE level.line WHEN r.through_rank THEN r.through_id ELSE '' END)
            ORDER BY due_at, id LIMIT 1)
WHERE level.line < 100
UNION ALL
SELECT queue, (SELECT min(not_before) FROM jobs
               WHERE state = 'scheduled' AND queue = wanted.queue AND not_before IS NOT NULL
                 AND (live IS NULL OR live < most)),
  NULL, NULL, fence, cutoff, live
FROM wanted
UNION ALL
SELECT wanted.queue, 0, NULL, NULL, NULL, NULL, NULL
FROM wanted JOIN ranges AS r ON r.queue = wanted.queue AND r.nonce IS NOT NULL
WHERE (live IS NULL OR live < most) AND r.in_flight < {queues.covered_by};
