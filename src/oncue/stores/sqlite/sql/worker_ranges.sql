-- Without a queue: of all.
-- name: of_queue
SELECT queue FROM ranges WHERE nonce IS NOT NULL AND (:queue IS NULL OR queue = :queue);

-- The same, if others have come into it than the jobs that were taken.
-- name: joined
SELECT queue FROM ranges AS r
WHERE nonce IS NOT NULL AND queue = :queue AND in_flight < {queues.covered_by};

-- Those that cover one of these jobs.
-- name: around
SELECT queue FROM ranges AS r
WHERE nonce IS NOT NULL AND EXISTS (
  SELECT 1 FROM jobs AS j WHERE j.id IN carray(:ids) AND +j.state = 'scheduled' AND {ranges.covers});

-- name: lapsed
SELECT queue FROM ranges WHERE nonce IS NOT NULL AND lease_until <= :now;

-- name: of_nonce
SELECT queue FROM ranges WHERE nonce IS NOT NULL AND substr(nonce, 1, :length) = :prefix;

-- name: next_lapse
SELECT min(lease_until) FROM ranges WHERE nonce IS NOT NULL;

-- A trigger gives each of its jobs a claim of its own.
-- name: split
UPDATE ranges SET cutoff = NULL, in_flight = 0 WHERE queue = :queue AND nonce IS NOT NULL;

-- name: of_jobs
SELECT queue, dispatcher, opened_at, ns, jobs_digest FROM ranges
WHERE nonce IS NOT NULL AND jobs_digest = :jobs_digest;

-- As `claims.sql: claim` and then `complete_all`.
-- name: complete
UPDATE jobs SET state = 'succeeded', epoch = epoch + 1, attempt = attempt + 1, worker = :worker,
  claimed_at = :claimed_at, finished_at = :now, updated_at = :now, ahead = 0, error = NULL
WHERE n IN carray(:ns) AND +state = 'scheduled';

-- name: complete_gone
DELETE FROM jobs WHERE n IN carray(:ns) AND +state = 'scheduled' AND digest IS NULL;

-- name: close
UPDATE ranges SET cutoff = NULL, in_flight = 0, nonce = NULL, ns = NULL, jobs_digest = NULL
WHERE queue = :queue;
