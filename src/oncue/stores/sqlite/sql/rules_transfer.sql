-- name: export_events
SELECT {events.event_columns} FROM events AS e WHERE e.n > :after ORDER BY e.n LIMIT :limit;

-- name: other_ids_of
SELECT i.event_n, i.id FROM event_ids AS i JOIN events AS e ON e.n = i.event_n
WHERE i.event_n IN carray(:ns) AND i.id <> e.id ORDER BY i.event_n, i.id;

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
VALUES (:name, :enabled, :queue, :payload, :created_at, :updated_at, :last_instant, :last_job_id, 1)
ON CONFLICT DO NOTHING RETURNING n;

-- name: admit_dependency
INSERT INTO dependencies (rule_n, position, type, resource, key, below, life_seconds, newest, stale)
VALUES (:rule_n, :position, :type, :resource, :key, :below, :life_seconds, :newest, :stale);

-- name: hold
SELECT {rules.rule_columns} FROM rules AS r WHERE r.name IN carray(:names) AND r.deleted = 0
ORDER BY r.name;

-- name: has_decided
SELECT 1 FROM decisions WHERE rule_n = :rule_n AND event_n = :event_n LIMIT 1;

-- name: admit_decision
INSERT INTO decisions (rule_n, event_n, dependency_n, decision, type, resource, life_seconds,
  decided_at, job_id, suppressed, times)
VALUES (:rule_n, :event_n, :dependency_n, :decision, :type, :resource, :life_seconds, :decided_at,
  :job_id, :suppressed, :times);
