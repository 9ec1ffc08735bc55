-- name: job_columns
id, queue, state, due_at, payload, priority, attempt, created_at, updated_at, owner, key,
  expires_at, max_attempts, timeout_seconds, finished_at, result, error, message, percent,
  cancel_requested, epoch, worker, lease_until, attempt_base, rule, instant, schedule, not_before,
  refusals

-- name: export
SELECT {job_columns},
  n, claimed_at, digest, overlong_at, strikes, ahead, hidden, trail
FROM jobs WHERE id > :after ORDER BY id LIMIT :limit;

-- name: attempts_of
SELECT n, attempt, epoch, claimed_at, worker, outcome, ended_at FROM attempts
WHERE n IN carray(:ns) ORDER BY n, seq;

-- name: operations_of
SELECT n, name, state, updated_at, percent, message, result FROM operations
WHERE n IN carray(:ns) ORDER BY n, seq;

-- name: diagnostics_of
SELECT n, at, code, detail, attempt, epoch, facts FROM diagnostics
WHERE n IN carray(:ns) ORDER BY n, seq;

-- name: admit
INSERT INTO jobs ({job_columns},
  claimed_at, digest, overlong_at, strikes, ahead, hidden, trail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: admit_attempt
INSERT INTO attempts (n, attempt, epoch, claimed_at, worker, outcome, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: admit_diagnostic
INSERT INTO diagnostics (n, at, code, detail, attempt, epoch, facts) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: admit_operation
INSERT INTO operations (n, name, state, updated_at, percent, message, result, seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);
