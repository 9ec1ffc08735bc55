-- A page of all jobs, up to `:room` bytes; how many there would be.
-- name: export
SELECT {jobs.columns}, j.total FROM (
  SELECT j.*, count(*) OVER () AS total,
    sum(j.size) OVER (ORDER BY j.id ROWS UNBOUNDED PRECEDING) - j.size AS before
  FROM (
    SELECT j.*, octet_length(j.payload) + coalesce(octet_length(j.result), 0) + j.result_bytes AS size
    FROM oncue.jobs AS j WHERE j.id > :after AND NOT (j.hidden AND j.digest IS NULL)
    ORDER BY j.id LIMIT :limit) AS j) AS j
WHERE j.before < :room
ORDER BY j.id;

-- name: known
SELECT id FROM oncue.jobs WHERE id = ANY(:ids::text[]);

-- name: admitted_columns
id, queue, due_at, payload, priority, created_at, owner, key, expires_at, max_attempts, timeout_seconds,
digest, updated_at, state, attempt, attempt_base, epoch, strikes, ahead, hidden, cancel_requested,
worker, claimed_at, lease_until, lease_ms, lease_asked, alone, nonce, overlong_at, finished_at, result,
error, message, percent, schedule, not_before, refusals, result_bytes, rule, instant, shard, forget_at,
past

-- name: admit
INSERT INTO oncue.jobs ({admitted_columns})
SELECT {admitted_columns} FROM unnest(:id::text[], :queue::text[], :due_at::bigint[], :payload::bytea[],
  :priority::smallint[], :created_at::bigint[], :owner::text[], :key::text[], :expires_at::bigint[],
  :max_attempts::integer[], :timeout_seconds::double precision[], :digest::bytea[],
  :updated_at::bigint[], :state::text[], :attempt::integer[], :attempt_base::integer[],
  :epoch::bigint[], :strikes::integer[], :ahead::boolean[], :hidden::boolean[],
  :cancel_requested::boolean[], :worker::text[], :claimed_at::bigint[], :lease_until::bigint[],
  :lease_ms::bigint[], :lease_asked::boolean[], :alone::boolean[], :nonce::text[],
  :overlong_at::bigint[], :finished_at::bigint[], :result::bytea[], :error::text[], :message::text[],
  :percent::double precision[], :schedule::text[], :not_before::bigint[], :refusals::integer[],
  :result_bytes::integer[], :rule::text[], :instant::bigint[], :shard::smallint[],
  :forget_at::bigint[], :past::text[]) AS new ({admitted_columns})
ON CONFLICT (id) DO NOTHING RETURNING id;

-- name: admit_operations
INSERT INTO oncue.operations (job_id, name, seq, state, updated_at, percent, message, result)
SELECT * FROM unnest(:job_ids::text[], :names::text[], :seqs::integer[], :states::text[],
  :updated::bigint[], :percents::double precision[], :messages::text[], :results::bytea[]);
