-- name: revision
SELECT settings FROM revision;

-- name: names
SELECT name FROM queues WHERE paused = 0;

-- When something of each of these queues can next be taken, unless its limits or an open range
-- forbid it: the earliest due time, or until when a job is put off. A few steps in an index for each
-- queue, however many jobs wait.
-- name: moments
WITH RECURSIVE wanted (queue) AS (
  SELECT q.name FROM carray(:queues) AS c CROSS JOIN queues AS q ON q.name = c.value
  WHERE q.paused = 0
), level (queue, line) AS (
  SELECT queue, (SELECT min(line) FROM jobs WHERE state = 'scheduled' AND queue = wanted.queue)
  FROM wanted
  UNION ALL
  SELECT queue, (SELECT min(line) FROM jobs
                 WHERE state = 'scheduled' AND queue = level.queue AND line > level.line)
  FROM level WHERE line < 100
)
SELECT queue, (SELECT min(due_at) FROM jobs
               WHERE state = 'scheduled' AND queue = level.queue AND line = level.line) AS moment
FROM level WHERE line < 100
UNION ALL
SELECT queue, (SELECT min(not_before) FROM jobs
               WHERE state = 'scheduled' AND queue = wanted.queue AND not_before IS NOT NULL)
FROM wanted;
