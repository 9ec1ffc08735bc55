-- name: range
SELECT lease_until, cutoff, through_rank, through_due, through_id, in_flight, fence
FROM ranges WHERE queue = :queue AND cutoff IS NOT NULL;

-- Of a range r and a scheduled job j.
-- name: covers
r.queue = j.queue AND j.due_at <= r.cutoff
AND (j.line, j.due_at, j.id) <= (r.through_rank, r.through_due, r.through_id)

-- Whether a range has lapsed, a job has expired, the moment of a put-off job has come.
-- name: to_change
SELECT
  EXISTS (SELECT 1 FROM ranges WHERE queue = :queue AND cutoff IS NOT NULL
          AND lease_until <= :now),
  EXISTS (SELECT 1 FROM jobs WHERE state = 'scheduled' AND expires_at IS NOT NULL
          AND expires_at <= :now AND +queue = :queue AND +due_at <= :until),
  EXISTS (SELECT 1 FROM jobs WHERE state = 'scheduled' AND queue = :queue
          AND not_before IS NOT NULL AND not_before <= :now);

-- name: due
SELECT id, due_at, payload, attempt + 1, NULL, queue, owner FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND line = :line AND due_at <= :until
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY due_at, id LIMIT :limit;

-- name: due_not_in_flight
SELECT id, due_at, payload, attempt + 1, NULL, queue, owner FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND line = :line AND due_at <= :until
  AND (expires_at IS NULL OR expires_at > :now) AND id NOT IN carray(:ids)
ORDER BY due_at, id LIMIT :limit;

-- name: first_not_in_flight
SELECT due_at FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND line = :line AND id NOT IN carray(:ids)
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY due_at, id LIMIT 1;

-- For a dispatcher, or for a worker: see `worker_ranges.py`.
-- name: open
INSERT INTO ranges (queue, fence, dispatcher, lease_until, opened_at, cutoff, through_rank,
                    through_due, through_id, lease_ms, in_flight, nonce, ns, jobs_digest)
VALUES (:queue, 1, :dispatcher, :lease_until, :now, :cutoff, :through_line, :through_due, :through_id,
        :lease_until - :now, :in_flight, :nonce, :ns, :jobs_digest)
ON CONFLICT (queue) DO UPDATE SET fence = fence + 1, dispatcher = excluded.dispatcher,
  lease_until = excluded.lease_until, lease_ms = excluded.lease_ms, opened_at = excluded.opened_at,
  cutoff = excluded.cutoff, through_rank = excluded.through_rank,
  through_due = excluded.through_due, through_id = excluded.through_id,
  in_flight = excluded.in_flight, nonce = excluded.nonce, ns = excluded.ns,
  jobs_digest = excluded.jobs_digest
RETURNING fence;

-- name: go_on
UPDATE ranges SET lease_until = max(lease_until, :lease_until), cutoff = :cutoff,
  through_rank = :through_line, through_due = :through_due, through_id = :through_id,
  in_flight = :in_flight
WHERE queue = :queue
RETURNING fence;

-- name: extend
UPDATE ranges SET lease_until = max(lease_until, :lease_until)
WHERE queue = :queue AND fence = :fence AND cutoff IS NOT NULL;

-- name: settle
UPDATE ranges SET cutoff = CASE WHEN :left > 0 THEN cutoff END, in_flight = :left
WHERE queue = :queue AND fence = :fence AND cutoff IS NOT NULL
RETURNING dispatcher;

-- name: is_let_go
SELECT 1 FROM ranges WHERE queue = :queue AND fence = :fence AND cutoff IS NULL;

-- name: take_over
UPDATE ranges SET cutoff = NULL, fence = fence + 1
WHERE queue = :queue AND cutoff IS NOT NULL
  AND (lease_until <= :now OR dispatcher = :dispatcher);

-- The + keeps the planner from the index of all that waits in the queue: ids are few.
-- name: delivered
UPDATE jobs SET state = 'succeeded', attempt = attempt + 1, worker = :dispatcher,
  claimed_at = :claimed_at, finished_at = :now, updated_at = :now, ahead = 0, error = NULL,
  refusals = 0
WHERE id IN carray(:ids) AND state = 'scheduled' AND +queue = :queue AND attempt = :before
  AND not_before IS NULL;

-- name: delivered_gone
DELETE FROM jobs WHERE id IN carray(:ids) AND state = 'scheduled' AND +queue = :queue
  AND attempt = :before AND not_before IS NULL AND digest IS NULL;

-- name: refused
UPDATE jobs SET state = 'failed', attempt = attempt + 1, worker = :dispatcher,
  claimed_at = :claimed_at, finished_at = :now, updated_at = :now, ahead = 0, trail = 1,
  error = :error
WHERE id = :id AND state = 'scheduled' AND +queue = :queue;

-- name: refusals_of
SELECT id, refusals FROM jobs WHERE id IN carray(:ids) AND state = 'scheduled' AND +queue = :queue
  AND attempt = :before AND not_before IS NULL;

-- name: put_off
UPDATE jobs SET not_before = ?2, refusals = ?3, error = ?4, updated_at = ?5
WHERE id = ?1 AND state = 'scheduled';

-- name: returning
SELECT n FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND not_before IS NOT NULL AND not_before <= :until
ORDER BY not_before LIMIT :limit;

-- Without the name of the index, all returning jobs of other lines would be read as well.
-- name: returning_in_line
SELECT n FROM jobs INDEXED BY jobs_put_off_lines
WHERE state = 'scheduled' AND queue = :queue AND line = :line AND not_before IS NOT NULL
  AND not_before <= :until
ORDER BY not_before LIMIT :limit;

-- name: back_in_line
UPDATE jobs SET not_before = NULL WHERE n IN carray(:ns) AND state = 'scheduled';

-- name: next_return
SELECT min(not_before) FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND not_before IS NOT NULL;

-- name: hide_all
UPDATE jobs SET hidden = 1 WHERE id IN carray(:ids) AND digest IS NOT NULL AND +queue = :queue
  AND finished_at IS NOT NULL;

-- name: after
SELECT due_at FROM jobs
WHERE state = 'scheduled' AND queue = :queue AND line = :line AND (due_at, id) > (:due_at, :id)
ORDER BY due_at, id LIMIT 1;
