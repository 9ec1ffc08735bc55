-- name: rule_columns
r.n, r.name, r.enabled, r.queue, r.payload, r.created_at, r.updated_at, r.last_instant,
r.last_job_id, r.touched, r.deleted

-- name: dependency_columns
n, type, resource, life_seconds, newest, stale, pair_n, pair_life_seconds, pair_since

-- name: rule
SELECT {rule_columns} FROM oncue.rules AS r WHERE r.name = :name AND NOT r.deleted;

-- name: rules
SELECT {rule_columns} FROM oncue.rules AS r WHERE NOT r.deleted AND r.name > :after
ORDER BY r.name LIMIT :limit;

-- name: dependencies
SELECT {dependency_columns} FROM oncue.dependencies
WHERE rule_n = :n AND NOT retired ORDER BY position;

-- name: dependencies_of
SELECT rule_n, {dependency_columns} FROM oncue.dependencies
WHERE rule_n = ANY(:ns::bigint[]) AND NOT retired ORDER BY rule_n, position;

-- name: rule_by_number
SELECT {rule_columns} FROM oncue.rules AS r WHERE r.n = :n;

-- name: rules_by_numbers
SELECT {rule_columns} FROM oncue.rules AS r WHERE r.n = ANY(:ns::bigint[]);

-- name: put
INSERT INTO oncue.rules (name, enabled, queue, payload, created_at, updated_at)
VALUES (:name, :enabled, :queue, :payload, :now, :now)
ON CONFLICT (name) WHERE NOT deleted DO UPDATE SET enabled = excluded.enabled,
  queue = excluded.queue, payload = excluded.payload, updated_at = excluded.updated_at,
  touched = true
RETURNING n;

-- name: depend
INSERT INTO oncue.dependencies (rule_n, position, type, resource, key, below, life_seconds)
VALUES (:rule_n, :position, :type, :resource, :key, :below, :life_seconds);

-- name: depend_still
UPDATE oncue.dependencies SET position = :position, life_seconds = :life_seconds WHERE n = :n;

-- name: retire
UPDATE oncue.dependencies SET retired = true WHERE n = :n;

-- name: pair
UPDATE oncue.dependencies SET pair_life_seconds = life_seconds, pair_since = :since::bigint,
  pair_n = CASE n WHEN :first::bigint THEN :second::bigint WHEN :second::bigint THEN :first::bigint END
WHERE rule_n = :n AND NOT retired;

-- name: delete
UPDATE oncue.rules SET deleted = true, touched = true WHERE name = :name AND NOT deleted
RETURNING n;

-- name: retire_all
UPDATE oncue.dependencies SET retired = true WHERE rule_n = :n AND NOT retired;

-- name: lock
SELECT n FROM oncue.rules WHERE name = ANY(:names::text[]) AND NOT deleted ORDER BY name FOR UPDATE;

-- Those that are published to at the moment are left for the next time.
-- name: touched
SELECT {rule_columns} FROM oncue.rules AS r WHERE r.touched ORDER BY r.n LIMIT :limit
FOR UPDATE SKIP LOCKED;

-- name: is_touched
SELECT 1 FROM oncue.rules WHERE touched LIMIT 1;

-- name: settle
UPDATE oncue.rules SET touched = false WHERE n = :n;

-- name: forget
DELETE FROM oncue.rules WHERE n = :n;

-- name: retired
SELECT n FROM oncue.dependencies WHERE rule_n = :n AND retired;

-- name: forget_dependency
DELETE FROM oncue.dependencies WHERE n = :n;
