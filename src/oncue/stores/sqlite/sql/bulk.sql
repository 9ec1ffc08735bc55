-- Each `find_…` walks one index in its own order, from the place (:p0, :p1, …) on, over all queues or
-- one. It answers whether the change applies, so that a page is bounded by what is looked at and not by
-- what is found; the priority, where it belongs to the index; and the key of the entry. The statements
-- named as verbs change what still fits, or find it. They answer with the id; and those by which work
-- may be due earlier with the queue and, if so, when.

-- Whether another unfinished job has its key, in the queue where it is to be.
-- name: key_taken
j.key IS NOT NULL AND EXISTS (
  SELECT 1 FROM jobs AS k
  WHERE k.queue = coalesce(:target, j.queue) AND k.key = j.key AND k.finished_at IS NULL)

-- name: fits
(:queue IS NULL OR j.queue = :queue) AND (:state IS NULL OR j.state = :state)
AND (:owner IS NULL OR j.owner = :owner) AND (:key IS NULL OR j.key = :key)
AND j.due_at >= coalesce(:due_after, j.due_at) AND j.due_at < coalesce(:due_before, j.due_at + 1)

-- name: applies
CASE j.state
  WHEN 'scheduled' THEN :scheduled AND {claims.not_covered}
  WHEN 'dispatched' THEN :dispatched
  WHEN 'executing' THEN :executing
  WHEN 'failed' THEN :failed AND j.finished_at <= :begun_at
  WHEN 'cancelled' THEN :cancelled AND j.finished_at <= :begun_at
  ELSE 0 END

-- name: find_waiting
-- The jobs of one queue and rank, in line and put off together: a job that is put off or returns
-- meanwhile keeps its place in the walk.
SELECT * FROM (
  SELECT {claims.not_covered}, j.priority, j.queue, :p1, j.due_at, j.id FROM jobs AS j
  WHERE j.state = 'scheduled' AND j.queue = :p0 AND j.line = :p1 AND (j.due_at, j.id) > (:p2, :p3)
  ORDER BY j.due_at, j.id LIMIT :limit)
UNION ALL
SELECT * FROM (
  SELECT 1, j.priority, j.queue, :p1, j.due_at, j.id FROM jobs AS j
  WHERE j.state = 'scheduled' AND j.queue = :p0 AND j.line = :p1 + 100
    AND (j.due_at, j.id) > (:p2, :p3)
  ORDER BY j.due_at, j.id LIMIT :limit)
ORDER BY 5, 6 LIMIT :limit;

-- name: next_rank
SELECT min(rank) FROM (
  SELECT min(line) AS rank FROM jobs
  WHERE state = 'scheduled' AND queue = :queue AND line > :rank AND line < 100
  UNION ALL
  SELECT min(line) - 100 FROM jobs
  WHERE state = 'scheduled' AND queue = :queue AND line > :rank + 100);

-- name: next_queue
SELECT min(queue) FROM jobs WHERE state = 'scheduled' AND queue > :queue AND queue <= :last_queue;

-- name: find_taken
SELECT :state IS NULL OR j.state = :state, NULL, j.queue, j.due_at, j.id FROM jobs AS j
WHERE j.state IN ('dispatched', 'executing') AND (j.queue, j.due_at, j.id) > (:p0, :p1, :p2)
  AND j.queue <= :last_queue
ORDER BY j.queue, j.due_at, j.id LIMIT :limit;

-- name: find_ended
SELECT j.finished_at <= :begun_at, NULL, j.queue, j.state, j.due_at, j.id FROM jobs AS j
WHERE j.finished_at IS NOT NULL AND j.hidden = 0
  AND (j.queue, j.state, j.due_at, j.id) > (:p0, :p1, :p2, :p3) AND j.queue <= :last_queue
ORDER BY j.queue, j.state, j.due_at, j.id LIMIT :limit;

-- name: find_owned
SELECT {applies} AND {fits}, NULL, j.due_at, j.id FROM jobs AS j
WHERE j.owner = :owner AND j.hidden = 0 AND (j.due_at, j.id) > (:p0, :p1)
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: find_keyed
SELECT {applies} AND {fits}, NULL, j.due_at, j.id FROM jobs AS j
WHERE j.key = :key AND j.hidden = 0 AND (j.due_at, j.id) > (:p0, :p1)
ORDER BY j.due_at, j.id LIMIT :limit;

-- name: cancel
UPDATE jobs AS j SET state = 'cancelled', finished_at = :now, updated_at = :now, ahead = 0,
  not_before = NULL
WHERE j.id IN carray(:ids) AND j.state = 'scheduled' AND {claims.not_covered} AND {fits}
RETURNING id;

-- name: stop
UPDATE jobs AS j SET cancel_requested = 1
WHERE j.id IN carray(:ids) AND j.state IN ('dispatched', 'executing') AND j.cancel_requested = 0
  AND {fits}
RETURNING id;

-- name: run
UPDATE jobs AS j SET due_at = min(due_at, :now), updated_at = :now, not_before = NULL, refusals = 0
WHERE j.id IN carray(:ids) AND j.state = 'scheduled'
  AND (j.due_at > :now OR j.not_before IS NOT NULL) AND {claims.not_covered} AND {fits}
RETURNING id, queue, :now;

-- name: amend
UPDATE jobs AS j SET due_at = coalesce(:due_at, due_at), priority = coalesce(:priority, priority),
  payload = coalesce(:payload, payload), updated_at = :now,
  not_before = CASE WHEN :due_at IS NULL THEN not_before END,
  refusals = CASE WHEN :due_at IS NULL THEN refusals ELSE 0 END
WHERE j.id IN carray(:ids) AND j.state = 'scheduled'
  AND (:payload IS NOT NULL OR j.priority <> :priority OR j.due_at <> :due_at
    OR (:due_at IS NOT NULL AND j.not_before IS NOT NULL))
  AND {claims.not_covered} AND {fits}
RETURNING id, queue, :due_at;

-- name: seen
SELECT j.id, j.state, j.state = 'scheduled' AND NOT {claims.not_covered}, j.queue, j.owner, j.key,
  j.due_at, j.not_before, j.priority, j.cancel_requested, j.finished_at, {key_taken}
FROM jobs AS j WHERE j.id IN carray(:ids) AND j.hidden = 0;

-- name: move
SELECT j.id, :target, j.due_at, j.n, j.key, {key_taken}
FROM jobs AS j
WHERE j.id IN carray(:ids) AND j.state = 'scheduled' AND j.queue <> :target AND {claims.not_covered}
  AND {fits}
ORDER BY j.due_at, j.id;

-- name: move_found
UPDATE jobs SET queue = :target, updated_at = :now, not_before = NULL, refusals = 0
WHERE n IN carray(:ns);

-- name: revive
SELECT j.id, j.queue, :now, j.n, j.key, {key_taken}
FROM jobs AS j
WHERE j.id IN carray(:ids) AND j.state IN ('failed', 'cancelled') AND j.hidden = 0
  AND j.finished_at <= :begun_at AND {fits}
ORDER BY j.due_at, j.id;

-- name: keep_attempts
INSERT INTO attempts (n, epoch, attempt, claimed_at, ended_at, worker, outcome, error)
SELECT n, epoch, attempt, claimed_at, finished_at, worker, state, error FROM jobs
WHERE n IN carray(:ns) AND claimed_at IS NOT NULL;

-- name: revive_found
UPDATE jobs SET state = 'scheduled', trail = 1, due_at = :now, updated_at = :now,
  attempt_base = attempt, strikes = 0, ahead = 0, cancel_requested = 0, worker = NULL,
  claimed_at = NULL, lease_until = NULL, overlong_at = NULL, message = NULL, percent = NULL,
  result = NULL, error = NULL, finished_at = NULL, expires_at = NULL, not_before = NULL,
  refusals = 0
WHERE n IN carray(:ns);
