-- name: keep_queue
SELECT pg_advisory_xact_lock_shared(:number::bigint);

-- name: ensure_queue
INSERT INTO oncue.queues (name) VALUES (:queue) ON CONFLICT (name) DO NOTHING;

-- name: insert
INSERT INTO oncue.jobs (id, queue, due_at, payload, priority, created_at, updated_at, owner, epoch,
  rule, instant, schedule, shard)
VALUES (:id, :queue, :due_at, :payload, :priority, :created_at, :created_at, :owner, :epoch, :rule,
  :instant, :schedule, :shard)
ON CONFLICT (id) DO NOTHING;

-- name: not_synced
SET LOCAL synchronous_commit TO off;
