-- name: report
INSERT OR REPLACE INTO nodes
  (id, host, pid, version, started_at, seen_at, engine, dispatches, works, url)
VALUES (:id, :host, :pid, :version, :started_at, :seen_at, :engine, :dispatches, :works, :url);

-- name: forget
DELETE FROM nodes WHERE id = :id;

-- name: prune
DELETE FROM nodes WHERE seen_at <= :after OR seen_at >= :before;

-- name: alive
SELECT id, host, pid, version, started_at, seen_at, engine, dispatches, works, url
FROM nodes WHERE seen_at > :after AND seen_at < :before ORDER BY started_at, id;
