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

-- name: export_events
SELECT {events.event_columns} FROM events AS e WHERE e.n > :after ORDER BY e.n LIMIT :limit;

-- name: decisions_of
SELECT d.event_n, r.name, d.decision = 'ACCEPTED' AND EXISTS (
    SELECT 1 FROM accepted AS a JOIN dependencies AS p ON p.n = a.dependency_n AND p.retired = 0
    WHERE a.dependency_n = d.dependency_n AND a.stamp = e.stamp AND a.event_n = e.n
  ), d.type, d.resource, d.life_seconds, d.decision, d.decided_at, d.job_id, d.suppressed, d.times
FROM decisions AS d JOIN events AS e ON e.n = d.event_n JOIN rules AS r ON r.n = d.rule_n
WHERE d.decision IN ('ACCEPTED', 'DUPLICATE', 'STALE', 'TOO_LATE') AND d.event_n IN carray(:ns)
  AND r.deleted = 0
ORDER BY d.event_n, r.name, d.decision = 'DUPLICATE', d.dependency_n;

-- name: admit_rule
INSERT INTO rules (name, enabled, queue, payload, created_at, updated_at, last_instant, last_job_id,
  touched)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO NOTHING RETURNING n;

-- name: admit_dependency
INSERT INTO dependencies (rule_n, position, type, resource, key, below, life_seconds, newest, stale)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: has_decided
SELECT 1 FROM decisions WHERE rule_n = ?1 AND event_n = ?2 LIMIT 1;

-- name: admit_decision
INSERT INTO decisions (rule_n, event_n, dependency_n, decision, type, resource, life_seconds,
  decided_at, job_id, suppressed, times)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11);
