-- name: export_events
SELECT {events.event_columns} FROM oncue.events AS e WHERE e.n > :after ORDER BY e.n LIMIT :limit;

-- name: other_ids_of
SELECT i.event_n, i.id FROM oncue.event_ids AS i JOIN oncue.events AS e ON e.n = i.event_n
WHERE i.event_n = ANY(:ns::bigint[]) AND i.id <> e.id ORDER BY i.event_n, i.id;

-- name: decisions_of
SELECT d.event_n, r.name, d.decision = 'ACCEPTED' AND EXISTS (
    SELECT 1 FROM oncue.accepted AS a
    JOIN oncue.dependencies AS p ON p.n = a.dependency_n AND NOT p.retired
    WHERE a.dependency_n = d.dependency_n AND a.stamp = e.stamp AND a.event_n = e.n
  ), d.type, d.resource, d.life_seconds, d.decision, d.decided_at, d.job_id, d.suppressed, d.times
FROM oncue.decisions AS d JOIN oncue.events AS e ON e.n = d.event_n
JOIN oncue.rules AS r ON r.n = d.rule_n
WHERE d.decision IN ('ACCEPTED', 'DUPLICATE', 'STALE', 'TOO_LATE')
  AND d.event_n = ANY(:ns::bigint[])
  AND NOT r.deleted
ORDER BY d.event_n, r.name, d.decision = 'DUPLICATE', d.dependency_n;

-- name: admit_rule
INSERT INTO oncue.rules (name, enabled, queue, payload, created_at, updated_at, last_instant,
  last_job_id, touched)
VALUES (:name, :enabled, :queue, :payload, :created_at, :updated_at, :last_instant,
  :last_job_id, true)
ON CONFLICT DO NOTHING RETURNING n;

-- name: admit_dependency
INSERT INTO oncue.dependencies (rule_n, position, type, resource, key, below, life_seconds, newest,
  stale)
VALUES (:rule_n, :position, :type, :resource, :key, :below, :life_seconds, :newest, :stale);

-- name: hold
SELECT {rules.rule_columns} FROM oncue.rules AS r WHERE r.name = ANY(:names::text[]) AND NOT r.deleted
ORDER BY r.name FOR UPDATE;

-- name: has_decided
SELECT 1 FROM oncue.decisions WHERE rule_n = :rule_n AND event_n = :event_n LIMIT 1;

-- name: admit_decision
INSERT INTO oncue.decisions (rule_n, event_n, dependency_n, decision, type, resource, life_seconds,
  decided_at, job_id, suppressed, times)
VALUES (:rule_n, :event_n, :dependency_n, :decision, :type, :resource, :life_seconds, :decided_at,
  :job_id, :suppressed, :times);
