-- As `core/job.py: Claimed`, with n and trail in the place of the operations and their cursor.
-- name: claimed_columns
id, queue, due_at, payload, priority, owner, key, attempt + 1, attempt_base, max_attempts,
timeout_seconds, epoch + 1, :now, :lease_until, created_at, expires_at, error, message, percent, rule,
instant, schedule, n, trail

-- name: due
SELECT {claimed_columns} FROM jobs AS j
WHERE state = 'scheduled' AND queue = :queue AND line = :line AND due_at <= :now
  AND (expires_at IS NULL OR expires_at > :now)
ORDER BY due_at, id LIMIT :limit;

-- name: due_uncovered
SELECT {claimed_columns} FROM jobs AS j
WHERE state = 'scheduled' AND queue = :queue AND line = :line AND due_at <= :now
  AND (expires_at IS NULL OR expires_at > :now)
  AND NOT (due_at <= :cutoff AND (line, due_at, id) <= (:through_line, :through_due, :through_id))
ORDER BY due_at, id LIMIT :limit;

-- name: claim
UPDATE jobs SET state = 'dispatched', epoch = epoch + 1, attempt = attempt + 1, worker = :worker,
  claimed_at = :now, updated_at = :now, lease_until = :lease_until, lease_ms = :lease_until - :now,
  lease_asked = 0, alone = :alone, nonce = :nonce,
  overlong_at = :now + CAST(round(coalesce(timeout_seconds, :timeout_seconds) * 1000) AS INTEGER)
WHERE n IN carray(:ns) AND state = 'scheduled';

-- The same for several workers or queues; each of the claims has the parameters of `claim`.
-- name: claim_each
WITH c AS MATERIALIZED (
  SELECT one.value AS claim, its.value AS n
  FROM json_each(:claims) AS one CROSS JOIN json_each(one.value, '$.ns') AS its)
UPDATE jobs SET state = 'dispatched', epoch = epoch + 1, attempt = attempt + 1,
  worker = c.claim ->> 'worker', claimed_at = :now, updated_at = :now,
  lease_until = c.claim ->> 'lease_until', lease_ms = (c.claim ->> 'lease_until') - :now,
  lease_asked = 0, alone = c.claim ->> 'alone', nonce = c.claim ->> 'nonce',
  overlong_at = :now + CAST(
    round(coalesce(timeout_seconds, c.claim ->> 'timeout_seconds') * 1000) AS INTEGER)
FROM c WHERE jobs.n = c.n AND +jobs.state = 'scheduled';

-- As `claimed_columns`, of jobs that are claimed already, with the nonce behind. Walks the live rows.
-- name: claimed_by
UPDATE jobs SET lease_until = max(lease_until, :now + coalesce(lease_ms, 0)), updated_at = :now
WHERE state IN ('dispatched', 'executing') AND queue >= '' AND lease_until IS NOT NULL
  AND substr(nonce, 1, :length) = :prefix
RETURNING id, queue, due_at, payload, priority, owner, key, attempt, attempt_base, max_attempts,
  timeout_seconds, epoch, claimed_at, lease_until, created_at, expires_at, error, message, percent, rule,
  instant, schedule, n, trail, nonce;

-- name: held
SELECT id, queue, state, CASE WHEN state = 'scheduled' THEN NOT {not_covered} ELSE 0 END, epoch, attempt,
  attempt_base, max_attempts, strikes, ahead, due_at, refusals, worker, claimed_at, updated_at, cancel_requested,
  lease_until, lease_ms, lease_asked, result, error, n
FROM jobs AS j WHERE id IN carray(:ids) AND hidden = 0;

-- name: touch
UPDATE jobs SET state = CASE WHEN :start THEN 'executing' ELSE state END, updated_at = :now,
  lease_until = :lease_until, lease_ms = :lease_ms, lease_asked = :lease_asked,
  message = coalesce(:message, message), percent = coalesce(:percent, percent)
WHERE n IN carray(:ns);

-- name: hand_over
UPDATE jobs SET refusals = 0, lease_until = CASE WHEN lease_asked THEN lease_until END,
  lease_ms = CASE WHEN lease_asked THEN lease_ms END,
  updated_at = CASE WHEN lease_asked OR lease_until IS NULL THEN updated_at ELSE :now END
WHERE n IN carray(:ns);

-- name: queue_of
SELECT queue FROM jobs WHERE id = :id;

-- name: queues_of
SELECT DISTINCT queue FROM jobs WHERE id IN carray(:ids);

-- With a queue: only if they are of that one.
-- name: complete_all
UPDATE jobs SET state = 'succeeded', finished_at = :now, updated_at = :now,
  lease_until = NULL, overlong_at = NULL, ahead = 0, error = NULL
WHERE id IN carray(:ids) AND epoch = :epoch AND state IN ('dispatched', 'executing')
  AND (:queue IS NULL OR +queue = :queue);

-- name: complete_each
UPDATE jobs SET state = 'succeeded', finished_at = ?1, updated_at = ?1,
  lease_until = NULL, overlong_at = NULL, ahead = 0, error = NULL, result = ?2
WHERE id = ?3 AND epoch = ?4 AND state IN ('dispatched', 'executing')
  AND (?5 IS NULL OR +queue = ?5);

-- name: complete_all_gone
DELETE FROM jobs
WHERE id IN carray(:ids) AND epoch = :epoch AND state IN ('dispatched', 'executing')
  AND digest IS NULL AND +queue = :queue;

-- As `core/fencing.py: Ending` says.
-- name: end_claim
UPDATE jobs SET state = :state, epoch = :epoch, attempt = :attempt, attempt_base = :attempt_base,
  strikes = :strikes, ahead = :ahead, due_at = :due_at, not_before = :not_before, refusals = :refusals,
  cancel_requested = :cancel_requested, result = :result, error = :error, updated_at = :now,
  finished_at = :finished_at, lease_until = NULL, overlong_at = NULL,
  worker = CASE WHEN :keeps_worker THEN worker END,
  claimed_at = CASE WHEN :keeps_worker THEN claimed_at END,
  trail = CASE WHEN :keeps_worker THEN trail ELSE 1 END
WHERE n = :n;

-- name: remove
DELETE FROM jobs WHERE n IN carray(:ns) AND digest IS NULL;

-- name: hide
UPDATE jobs SET hidden = 1 WHERE n IN carray(:ns) AND digest IS NOT NULL;

-- name: settle
INSERT INTO settled (until, mark, marks, claims) VALUES (:until, :mark, :marks, :claims);

-- name: settled_alone
SELECT claims FROM settled WHERE mark IN carray(:marks) AND +until > :now;

-- name: settled_marks
SELECT seq, marks FROM settled WHERE mark IS NULL AND until > :now ORDER BY until DESC;

-- name: settled_claims
SELECT claims FROM settled WHERE seq = :seq;

-- name: settled_over
SELECT 1 FROM settled WHERE until <= :now LIMIT 1;

-- name: forget_settled
DELETE FROM settled WHERE until <= :now;

-- name: attempt_ended
SELECT outcome, error, attempt, ended_at FROM attempts WHERE n = :n AND epoch = :epoch
ORDER BY seq LIMIT 1;

-- name: end_attempts
INSERT INTO attempts (n, epoch, attempt, claimed_at, ended_at, worker, outcome, error)
SELECT n, epoch, attempt, claimed_at, :now, worker, :outcome, :error FROM jobs
WHERE n IN carray(:ns) AND claimed_at IS NOT NULL;

-- name: trim_attempts
DELETE FROM attempts WHERE seq = (
  SELECT seq FROM attempts WHERE n = :n ORDER BY seq LIMIT 1 OFFSET :kept
);

-- name: add_diagnostic
INSERT INTO diagnostics (n, at, code, detail, attempt, epoch, facts)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: mark_trail
UPDATE jobs SET trail = 1 WHERE n IN carray(:ns) AND trail = 0;

-- name: trim_diagnostics
DELETE FROM diagnostics WHERE seq = (
  SELECT seq FROM diagnostics WHERE n = :n ORDER BY seq LIMIT 1 OFFSET :kept
);

-- What ends a claim leaves its decision; others may have told more of the same epoch.
-- name: diagnostic_of_end
SELECT at, code, detail, attempt, epoch, facts FROM diagnostics
WHERE n = :n AND epoch = :epoch AND at = :ended_at AND json_extract(facts, '$.decision') IS NOT NULL
ORDER BY seq LIMIT 1;

-- name: fenced_diagnostic
SELECT at, code, detail, attempt, epoch, facts FROM diagnostics
WHERE n = :n AND epoch = :epoch AND code = 'fenced' AND json_extract(facts, '$.write') = :write;

-- name: operation
SELECT name, state, updated_at, percent, message, result FROM operations
WHERE n = :n AND name = :name;

-- name: had_operations
SELECT count(*), coalesce(sum(length(result)), 0) FROM operations WHERE n = :n;

-- name: put_operation
INSERT INTO operations (n, name, seq, state, updated_at, percent, message, result)
VALUES (:n, :name, :seq, :state, :now, :percent, :message, :result)
ON CONFLICT (n, name) DO UPDATE SET state = excluded.state, updated_at = excluded.updated_at,
  percent = excluded.percent, message = excluded.message, result = excluded.result;

-- name: operation_touch
UPDATE jobs SET state = 'executing', updated_at = :now, trail = 1,
  strikes = CASE WHEN :succeeded THEN 0 ELSE strikes END
WHERE n = :n;

-- name: lapse_columns
id, queue, state, epoch, attempt, attempt_base, max_attempts, strikes, cancel_requested, worker,
claimed_at, updated_at, lease_until, overlong_at, alone

-- name: heard_outside
(:since IS NULL OR updated_at < :since OR updated_at > :until)

-- name: live_claim
SELECT {lapse_columns}, reclaim_at, due_at FROM jobs
WHERE id = :id AND state IN ('dispatched', 'executing') AND hidden = 0
  AND (:lapsed_by IS NULL OR reclaim_at <= :lapsed_by) AND {heard_outside};

-- name: lapsed_claims
SELECT {lapse_columns}, reclaim_at, due_at FROM jobs
WHERE state IN ('dispatched', 'executing') AND reclaim_at <= :lapsed_by
  AND (reclaim_at, id) > (:reclaim_at, :id) AND {heard_outside}
ORDER BY reclaim_at, id LIMIT :limit;

-- Walks the live rows by an index that is there for listings: one by the last update would cost
-- every claim and every heartbeat (docs/adr/0011-reclaim-run.md).
-- name: live_claims
SELECT {lapse_columns}, reclaim_at, due_at FROM jobs
WHERE state IN ('dispatched', 'executing') AND (queue, due_at, id) > (:queue, :due_at, :id)
  AND {heard_outside}
ORDER BY queue, due_at, id LIMIT :limit;

-- name: live_count
SELECT count(*) FROM jobs WHERE state IN ('dispatched', 'executing') AND queue >= '';

-- `end_claim` for many jobs that a reclaimer gives back.
-- name: reclaim
UPDATE jobs SET state = 'scheduled', updated_at = :now, epoch = epoch + 1,
  worker = NULL, claimed_at = NULL, lease_until = NULL, overlong_at = NULL, ahead = 1,
  cancel_requested = 0, trail = 1,
  strikes = strikes + :strike, attempt_base = attempt_base + :not_counted
WHERE n IN carray(:ns);

-- name: crowded_diagnostics
SELECT n FROM diagnostics WHERE n IN carray(:ns) GROUP BY n HAVING count(*) > 2 * :kept;

-- name: crowded_attempts
SELECT n FROM attempts WHERE n IN carray(:ns) GROUP BY n HAVING count(*) > 2 * :kept;

-- name: expired
SELECT n FROM jobs AS j
WHERE state = 'scheduled' AND expires_at IS NOT NULL AND expires_at <= :now
  AND {not_covered}
ORDER BY expires_at, id LIMIT :limit;

-- name: expired_due
SELECT n FROM jobs AS j
WHERE state = 'scheduled' AND expires_at IS NOT NULL AND expires_at <= :now
  AND +queue = :queue AND +due_at <= :until AND (not_before IS NULL OR not_before <= :now)
  AND {not_covered}
ORDER BY expires_at, id LIMIT :limit;

-- name: not_covered
NOT EXISTS (SELECT 1 FROM ranges AS r WHERE {ranges.covers})

-- name: expire
UPDATE jobs SET state = 'cancelled', finished_at = :now, updated_at = :now, ahead = 0, trail = 1,
  error = :detail, not_before = NULL
WHERE n IN carray(:ns) AND state = 'scheduled';

-- name: diagnose_expired
INSERT INTO diagnostics (n, at, code, detail, attempt, epoch, facts)
SELECT n, :now, 'expired', :detail, attempt, epoch, '{}' FROM jobs WHERE n IN carray(:ns);

-- name: next_expiry
SELECT expires_at FROM jobs AS j
WHERE state = 'scheduled' AND expires_at IS NOT NULL AND {not_covered}
ORDER BY expires_at LIMIT 1;

-- name: next_lapse
SELECT min(reclaim_at) FROM jobs
WHERE state IN ('dispatched', 'executing') AND reclaim_at IS NOT NULL;
