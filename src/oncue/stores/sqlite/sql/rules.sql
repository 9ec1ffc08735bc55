-- name: rule_columns
r.n, r.name, r.enabled, r.queue, r.payload, r.created_at, r.updated_at, r.last_instant,
r.last_job_id, r.touched, r.deleted

-- name: dependency_columns
n, type, resource, life_seconds, newest, stale, pair_n, pair_life_seconds, pair_since

-- name: rule
SELECT {rule_columns} FROM rules AS r WHERE r.name = :name AND r.deleted = 0;

-- name: rules
SELECT {rule_columns} FROM rules AS r WHERE r.deleted = 0 AND r.name > :after
ORDER BY r.name LIMIT :limit;

-- name: dependencies
SELECT {dependency_columns} FROM dependencies
WHERE rule_n = :n AND retired = 0 ORDER BY position;

-- name: dependencies_of
SELECT rule_n, {dependency_columns} FROM dependencies
WHERE rule_n IN carray(:ns) AND retired = 0 ORDER BY rule_n, position;

-- name: rule_by_number
SELECT {rule_columns} FROM rules AS r WHERE r.n = :n;

-- name: put
INSERT INTO rules (name, enabled, queue, payload, created_at, updated_at)
VALUES (:name, :enabled, :queue, :payload, :now, :now)
ON CONFLICT (name) WHERE deleted = 0 DO UPDATE SET enabled = excluded.enabled,
  queue = excluded.queue, payload = excluded.payload, updated_at = excluded.updated_at, touched = 1
RETURNING n;

-- name: depend
INSERT INTO dependencies (rule_n, position, type, resource, key, below, life_seconds)
VALUES (:rule_n, :position, :type, :resource, :key, :below, :life_seconds);

-- name: depend_still
UPDATE dependencies SET position = :position, life_seconds = :life_seconds WHERE n = :n;

-- name: retire
UPDATE dependencies SET retired = 1 WHERE n = :n;

-- name: pair
UPDATE dependencies SET pair_life_seconds = life_seconds, pair_since = :since,
  pair_n = CASE n WHEN :first THEN :second WHEN :second THEN :first END
WHERE rule_n = :n AND retired = 0;

-- name: delete
UPDATE rules SET deleted = 1, touched = 1 WHERE name = :name AND deleted = 0 RETURNING n;

-- name: retire_all
UPDATE dependencies SET retired = 1 WHERE rule_n = :n AND retired = 0;

-- name: touched
SELECT {rule_columns} FROM rules AS r WHERE r.touched = 1 ORDER BY r.n LIMIT :limit;

-- name: is_touched
SELECT 1 FROM rules WHERE touched = 1 LIMIT 1;

-- name: settle
UPDATE rules SET touched = 0 WHERE n = :n;

-- name: forget
DELETE FROM rules WHERE n = :n;

-- name: retired
SELECT n FROM dependencies WHERE rule_n = :n AND retired = 1;

-- name: forget_dependency
DELETE FROM dependencies WHERE n = :n;
