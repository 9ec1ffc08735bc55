-- name: report
INSERT INTO oncue.nodes
  (id, host, pid, version, started_at, seen_at, engine, dispatches, works, url)
VALUES (:id, :host, :pid, :version, :started_at, :seen_at, :engine, :dispatches, :works, :url)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, version = excluded.version,
  started_at = excluded.started_at, seen_at = excluded.seen_at, engine = excluded.engine,
  dispatches = excluded.dispatches, works = excluded.works, url = excluded.url;

-- name: forget
DELETE FROM oncue.nodes WHERE id = :id;

-- Nodes report at the same time: one that is about to is left alone.
-- name: prune
DELETE FROM oncue.nodes WHERE id IN (
  SELECT id FROM oncue.nodes WHERE seen_at <= :after OR seen_at >= :before FOR UPDATE SKIP LOCKED);

-- name: alive
SELECT id, host, pid, version, started_at, seen_at, engine, dispatches, works, url
FROM oncue.nodes WHERE seen_at > :after AND seen_at < :before ORDER BY started_at, id;
