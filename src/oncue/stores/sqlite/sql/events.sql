-- name: event_columns
e.n, e.id, e.type, e.resource, e.stamp, e.received_at

-- name: by_ids
SELECT i.id, e.type, e.resource, e.stamp FROM event_ids AS i JOIN events AS e ON e.n = i.event_n
WHERE i.id IN carray(:ids);

-- Another id of an event, unless it has as many as are remembered.
-- name: also
INSERT INTO event_ids (id, event_n)
SELECT :id, :n WHERE :most > (SELECT count(*) FROM event_ids WHERE event_n = :n)
ON CONFLICT DO NOTHING;

-- name: by_fact
SELECT {event_columns} FROM events AS e WHERE e.type = :type AND e.resource = :resource AND e.stamp = :stamp;

-- name: store
INSERT INTO events (id, type, resource, stamp, received_at, decided)
VALUES (:id, :type, :resource, :stamp, :now, :decided) ON CONFLICT DO NOTHING RETURNING n;

-- name: count_decided
UPDATE events SET decided = decided + :rules WHERE n = :n;

-- name: matching
SELECT r.name, r.n, d.n FROM dependencies AS d CROSS JOIN rules AS r ON r.n = d.rule_n
WHERE d.retired = 0 AND d.type = :type AND d.key IN carray(:keys)
  AND (d.below = 0 OR d.key <> :exact);

-- name: matching_of
SELECT r.name, r.n, d.n FROM rules AS r CROSS JOIN dependencies AS d ON d.rule_n = r.n
WHERE r.name IN carray(:names) AND r.deleted = 0
  AND d.retired = 0 AND d.type = :type AND d.key IN carray(:keys)
  AND (d.below = 0 OR d.key <> :exact);

-- name: repeat
INSERT INTO decisions (rule_n, event_n, dependency_n, decision, type, resource, life_seconds,
  decided_at, job_id, suppressed)
SELECT rule_n, event_n, dependency_n, 'DUPLICATE', type, resource, life_seconds, :now, job_id,
  suppressed
FROM decisions WHERE rule_n = :rule_n AND event_n = :event_n AND decision <> 'DUPLICATE'
ON CONFLICT DO UPDATE SET times = times + 1, decided_at = excluded.decided_at
RETURNING type, resource, life_seconds, decision, decided_at, job_id, suppressed, times;

-- name: decide
INSERT INTO decisions (rule_n, event_n, dependency_n, decision, type, resource, life_seconds,
  decided_at, job_id, suppressed)
VALUES (:rule_n, :event_n, :dependency_n, :decision, :type, :resource, :life_seconds, :now, :job_id,
  :suppressed);

-- OR FAIL: for the trigger of this table, SQLite would else keep a journal of every statement.
-- name: accept
INSERT OR FAIL INTO accepted (dependency_n, stamp, event_n) VALUES (:n, :stamp, :event_n);

-- name: note_newest
UPDATE dependencies SET newest = :stamp WHERE n = :n AND (newest IS NULL OR newest < :stamp);

-- name: note_stale
UPDATE dependencies SET stale = 1 WHERE n = :n;

-- name: touch
UPDATE rules SET touched = 1 WHERE n = :n;

-- name: newest
SELECT stamp FROM accepted WHERE dependency_n = :n AND stamp <= :stamp ORDER BY stamp DESC LIMIT 1;

-- name: newest_marker
SELECT stamp FROM accepted WHERE dependency_n = :n AND is_marker = 1 AND stamp <= :stamp
ORDER BY stamp DESC LIMIT 1;

-- name: validating
SELECT {event_columns} FROM accepted AS a JOIN events AS e ON e.n = a.event_n
WHERE a.dependency_n = :n AND a.stamp = :stamp ORDER BY a.event_n LIMIT 1;

-- name: fired
UPDATE rules SET last_instant = :instant, last_job_id = :job_id, touched = 1
WHERE n = :n AND (last_instant IS NULL OR last_instant < :instant);

-- name: page
SELECT {event_columns} FROM events AS e WHERE e.n < :before ORDER BY e.n DESC LIMIT :limit;

-- name: page_rule
SELECT DISTINCT {event_columns} FROM decisions AS d JOIN events AS e ON e.n = d.event_n
WHERE d.rule_n = :rule_n AND d.event_n < :before AND (:decision IS NULL OR d.decision = :decision)
ORDER BY d.event_n DESC LIMIT :limit;

-- name: page_decision
SELECT DISTINCT {event_columns} FROM decisions AS d JOIN events AS e ON e.n = d.event_n
WHERE d.decision = :decision AND d.event_n < :before
ORDER BY d.event_n DESC LIMIT :limit;

-- name: decisions_of
SELECT d.event_n, r.name, d.type, d.resource, d.life_seconds, d.decision, d.decided_at, d.job_id,
  d.suppressed, d.times
FROM decisions AS d JOIN rules AS r ON r.n = d.rule_n
WHERE d.decision IN ('ACCEPTED', 'DUPLICATE', 'STALE', 'TOO_LATE') AND d.event_n IN carray(:ns)
  AND r.deleted = 0;

-- name: unaccept
DELETE FROM accepted WHERE (dependency_n, stamp, event_n) IN (
  SELECT dependency_n, stamp, event_n FROM accepted
  WHERE dependency_n = :n AND stamp < :before ORDER BY stamp LIMIT :limit
);

-- name: oldest_decided
SELECT d.event_n, e.stamp FROM decisions AS d JOIN events AS e ON e.n = d.event_n
WHERE d.rule_n = :n ORDER BY d.event_n LIMIT :limit;

-- name: undecide
DELETE FROM decisions WHERE rule_n = :rule_n AND event_n IN carray(:ns);

-- name: count_undecided
UPDATE events SET decided = decided - 1 WHERE n IN carray(:ns);

-- name: forget
DELETE FROM events WHERE n IN ({loose});

-- name: loose
SELECT n FROM events WHERE decided = 0 AND received_at < :before ORDER BY received_at LIMIT :limit
