-- Some statements here take arrays: `postgresql/joined.py: _GATHERED`.

-- name: event_columns
e.n, e.id, e.type, e.resource, e.stamp, e.received_at

-- name: by_ids
SELECT i.id, e.type, e.resource, e.stamp
FROM oncue.event_ids AS i JOIN oncue.events AS e ON e.n = i.event_n WHERE i.id = ANY(:ids::text[]);

-- Another id of an event, unless it has as many as are remembered.
-- name: also
INSERT INTO oncue.event_ids (id, event_n)
SELECT :id::text, :n::bigint
WHERE :most > (SELECT count(*) FROM oncue.event_ids WHERE event_n = :n::bigint)
ON CONFLICT DO NOTHING;

-- Its key must not be removed before the end of the transaction, as for `keep`.
-- name: by_fact
SELECT {event_columns} FROM oncue.events AS e
WHERE e.type = :type AND e.resource = :resource AND e.stamp = :stamp FOR KEY SHARE;

-- name: store
INSERT INTO oncue.events (id, type, resource, stamp, received_at, decided)
VALUES (:id, :type, :resource, :stamp, :now, :decided) ON CONFLICT DO NOTHING RETURNING n;

-- Those that are not there yet. They are numbered as they came, and stored in one order for all, so
-- that no two publications wait for each other.
-- name: reserve
WITH new AS MATERIALIZED (
  SELECT nextval(pg_get_serial_sequence('oncue.events', 'n')) AS n, id, type, resource, stamp
  FROM unnest(:ids::text[], :types::text[], :resources::text[], :stamps::bigint[])
    AS f (id, type, resource, stamp)
)
INSERT INTO oncue.events AS e (n, id, type, resource, stamp, received_at)
OVERRIDING SYSTEM VALUE
SELECT n, id, type, resource, stamp, :now FROM new ORDER BY type, resource, stamp
ON CONFLICT DO NOTHING RETURNING {event_columns};

-- Those that are there. Nobody removes them before the end of the transaction.
-- name: keep
SELECT {event_columns} FROM unnest(:types::text[], :resources::text[], :stamps::bigint[])
  AS f (type, resource, stamp)
JOIN oncue.events AS e ON e.type = f.type AND e.resource = f.resource AND e.stamp = f.stamp
ORDER BY e.type, e.resource, e.stamp FOR KEY SHARE OF e;

-- name: count_decided
UPDATE oncue.events AS e SET decided = decided + new.rules
FROM (SELECT n, sum(rules) AS rules FROM unnest(:n::bigint[], :rules::bigint[]) AS new (n, rules)
      GROUP BY n) AS new
WHERE e.n = new.n;

-- The dependencies d of rules r that the events at places `at` match, by their keys: see
-- `postgresql/publication.py: _keys`.
-- name: matched
unnest(:ats::integer[], :types::text[], :keys::text[], :exacts::boolean[]) AS f (at, type, key, exact)
JOIN oncue.dependencies AS d
  ON NOT d.retired AND d.type = f.type AND d.key = f.key AND NOT (d.below AND f.exact)
JOIN oncue.rules AS r ON r.n = d.rule_n AND NOT r.deleted

-- name: candidates
SELECT DISTINCT f.at, r.name FROM {matched};

-- The same of rules that are locked: read from these, since a key may be that of many others.
-- name: matches
WITH held AS MATERIALIZED (
  SELECT d.n, d.type, d.key, d.below, r.name, r.n AS rule_n
  FROM oncue.rules AS r JOIN oncue.dependencies AS d ON d.rule_n = r.n AND NOT d.retired
  WHERE r.n = ANY(:ns::bigint[]) AND NOT r.deleted)
SELECT f.at, d.name, d.rule_n, d.n
FROM unnest(:ats::integer[], :types::text[], :keys::text[], :exacts::boolean[]) AS f (at, type, key, exact)
JOIN held AS d ON d.type = f.type AND d.key = f.key AND NOT (d.below AND f.exact);

-- name: decided_on
SELECT DISTINCT rule_n, event_n FROM oncue.decisions
WHERE rule_n = ANY(:ns::bigint[]) AND event_n = ANY(:events::bigint[]);

-- name: repeat
INSERT INTO oncue.decisions AS d (rule_n, event_n, dependency_n, decision, type, resource,
  life_seconds, decided_at, job_id, suppressed)
SELECT rule_n, event_n, dependency_n, 'DUPLICATE', type, resource, life_seconds, :now::bigint, job_id,
  suppressed
FROM oncue.decisions WHERE rule_n = :rule_n AND event_n = :event_n AND decision <> 'DUPLICATE'
ON CONFLICT (rule_n, event_n, dependency_n, decision)
DO UPDATE SET times = d.times + 1, decided_at = excluded.decided_at
RETURNING type, resource, life_seconds, decision, decided_at, job_id, suppressed, times;

-- name: decide
INSERT INTO oncue.decisions (rule_n, event_n, dependency_n, decision, type, resource, life_seconds,
  decided_at, job_id, suppressed)
SELECT * FROM unnest(:rule_n::bigint[], :event_n::bigint[], :dependency_n::bigint[], :decision::text[],
  :type::text[], :resource::text[], :life_seconds::bigint[], :now::bigint[], :job_id::text[],
  :suppressed::text[]);

-- name: accept
INSERT INTO oncue.accepted (dependency_n, stamp, event_n)
SELECT * FROM unnest(:n::bigint[], :stamp::bigint[], :event_n::bigint[]);

-- name: note_newest
UPDATE oncue.dependencies AS d SET newest = greatest(newest, new.stamp)
FROM (SELECT n, max(stamp) AS stamp FROM unnest(:n::bigint[], :stamp::bigint[]) AS new (n, stamp)
      GROUP BY n) AS new
WHERE d.n = new.n;

-- name: note_stale
UPDATE oncue.dependencies SET stale = true WHERE n = ANY(:n::bigint[]);

-- name: touch
UPDATE oncue.rules SET touched = true WHERE n = ANY(:n::bigint[]);

-- name: newest
SELECT stamp FROM oncue.accepted WHERE dependency_n = :n AND stamp <= :stamp ORDER BY stamp DESC LIMIT 1;

-- name: newest_marker
SELECT stamp FROM oncue.accepted WHERE dependency_n = :n AND is_marker AND stamp <= :stamp
ORDER BY stamp DESC LIMIT 1;

-- name: validating
SELECT {event_columns} FROM oncue.accepted AS a JOIN oncue.events AS e ON e.n = a.event_n
WHERE a.dependency_n = :n AND a.stamp = :stamp ORDER BY a.event_n LIMIT 1;

-- Of each dependency of these rules: the newest stamp that was accepted, the first event with it, and
-- that event itself, if it is kept still.
-- name: newest_of
SELECT d.n, newest.stamp, newest.event_n, {event_columns}
FROM oncue.dependencies AS d CROSS JOIN LATERAL (
  SELECT a.stamp, a.event_n FROM oncue.accepted AS a
  WHERE a.dependency_n = d.n ORDER BY a.stamp DESC, a.event_n LIMIT 1) AS newest
LEFT JOIN oncue.events AS e ON e.n = newest.event_n
WHERE d.rule_n = ANY(:ns::bigint[]) AND NOT d.retired;

-- name: fired
UPDATE oncue.rules AS r SET last_instant = new.instant, last_job_id = new.job_id, touched = true
FROM (SELECT DISTINCT ON (n) n, instant, job_id
      FROM unnest(:n::bigint[], :instant::bigint[], :job_id::text[]) AS new (n, instant, job_id)
      ORDER BY n, instant DESC) AS new
WHERE r.n = new.n AND (r.last_instant IS NULL OR r.last_instant < new.instant);

-- name: page
SELECT {event_columns} FROM oncue.events AS e WHERE e.n < :before ORDER BY e.n DESC LIMIT :limit;

-- name: page_rule
SELECT DISTINCT {event_columns} FROM oncue.decisions AS d JOIN oncue.events AS e ON e.n = d.event_n
WHERE d.rule_n = :rule_n AND d.event_n < :before
  AND (:decision::text IS NULL OR d.decision = :decision::text)
ORDER BY e.n DESC LIMIT :limit;

-- name: page_decision
SELECT DISTINCT {event_columns} FROM oncue.decisions AS d JOIN oncue.events AS e ON e.n = d.event_n
WHERE d.decision = :decision AND d.event_n < :before
ORDER BY e.n DESC LIMIT :limit;

-- name: decisions_of
SELECT d.event_n, r.name, d.type, d.resource, d.life_seconds, d.decision, d.decided_at, d.job_id,
  d.suppressed, d.times
FROM oncue.decisions AS d JOIN oncue.rules AS r ON r.n = d.rule_n
WHERE d.decision IN ('ACCEPTED', 'DUPLICATE', 'STALE', 'TOO_LATE') AND d.event_n = ANY(:ns::bigint[])
  AND NOT r.deleted;

-- name: unaccept
DELETE FROM oncue.accepted WHERE (dependency_n, stamp, event_n) IN (
  SELECT dependency_n, stamp, event_n FROM oncue.accepted
  WHERE dependency_n = :n AND stamp < :before ORDER BY stamp LIMIT :limit
);

-- name: oldest_decided
SELECT d.event_n, e.stamp FROM oncue.decisions AS d JOIN oncue.events AS e ON e.n = d.event_n
WHERE d.rule_n = :n ORDER BY d.event_n LIMIT :limit;

-- name: undecide
DELETE FROM oncue.decisions WHERE rule_n = :rule_n AND event_n = ANY(:ns::bigint[]);

-- name: count_undecided
UPDATE oncue.events SET decided = decided - 1 WHERE n IN (
  SELECT n FROM oncue.events WHERE n = ANY(:ns::bigint[]) ORDER BY n FOR NO KEY UPDATE);

-- An event that is being published is kept (`keep`), and left out here.
-- name: forget
DELETE FROM oncue.events WHERE n IN ({loose} FOR UPDATE SKIP LOCKED);

-- name: loose
SELECT n FROM oncue.events WHERE decided = 0 AND received_at < :before
ORDER BY received_at LIMIT :limit
