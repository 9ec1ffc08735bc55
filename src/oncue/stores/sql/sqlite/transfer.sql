-- name: export
SELECT j.id, j.queue, j.state, j.due_at, j.payload, j.priority, j.attempt, j.created_at,
  j.updated_at, j.owner, j.key, j.expires_at, j.max_attempts, j.timeout_seconds, j.finished_at,
  j.result, j.error, j.message, j.percent, j.cancel_requested, j.epoch, j.worker, j.lease_until,
  j.attempt_base, j.rule, j.instant, j.schedule, j.not_before, j.refusals,
  j.n, j.claimed_at, j.digest, j.overlong_at, j.strikes, j.ahead, j.hidden, j.trail
FROM jobs AS j WHERE j.id > :after ORDER BY j.id LIMIT :limit;

-- name: attempts_of
SELECT n, attempt, epoch, claimed_at, worker, outcome, ended_at FROM attempts
WHERE n IN carray(:ns) ORDER BY n, seq;

-- name: diagnostics_of
SELECT n, at, code, detail, attempt, epoch, facts FROM diagnostics
WHERE n IN carray(:ns) ORDER BY n, seq;

-- name: admit
INSERT INTO jobs (id, queue, state, due_at, payload, priority, attempt, created_at, updated_at,
  owner, key, expires_at, max_attempts, timeout_seconds, finished_at, result, error, message,
  percent, cancel_requested, epoch, worker, lease_until, attempt_base, claimed_at, digest,
  overlong_at, strikes, ahead, hidden, trail, rule, instant, schedule,
  not_before, refusals)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: admit_attempt
INSERT INTO attempts (n, epoch, attempt, claimed_at, ended_at, worker, outcome)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: admit_diagnostic
INSERT INTO diagnostics (n, at, code, detail, attempt, epoch, facts) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: admit_operation
INSERT INTO operations (n, name, seq, state, updated_at, percent, message, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);
