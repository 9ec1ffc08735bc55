-- Those whose ids are there are left as they are.
-- name: insert
INSERT INTO oncue.jobs (id, queue, due_at, payload, priority, created_at, updated_at, owner, epoch,
  rule, instant, schedule, shard)
SELECT id, queue, due_at, payload, priority, created_at, created_at, owner, epoch, rule, instant,
  schedule, shard
FROM unnest(:id::text[], :queue::text[], :due_at::bigint[], :payload::bytea[], :priority::smallint[],
  :created_at::bigint[], :owner::text[], :epoch::bigint[], :rule::text[], :instant::bigint[],
  :schedule::text[], :shard::smallint[])
  AS new (id, queue, due_at, payload, priority, created_at, owner, epoch, rule, instant, schedule,
    shard)
ORDER BY id ON CONFLICT (id) DO NOTHING;

-- name: not_synced
SET LOCAL synchronous_commit TO off;
