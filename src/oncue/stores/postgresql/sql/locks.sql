-- Until the end of the transaction; in the order of their numbers, against deadlocks.
-- name: share
SELECT pg_advisory_xact_lock_shared(number) FROM unnest(:numbers::bigint[]) AS number;

-- For so many milliseconds each lock is waited for in this transaction; 0: without an end.
-- name: patience
SELECT set_config('lock_timeout', :ms::text, true);

-- The lock of a shard, with that patience for it alone: what comes next waits as before.
-- name: hold_shard
WITH bounded AS MATERIALIZED (
  SELECT set_config('lock_timeout', :ms::text, true)
), held AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(:number::bigint) WHERE (SELECT count(*) FROM bounded) >= 0)
SELECT set_config('lock_timeout', '0', true) WHERE (SELECT count(*) FROM held) >= 0;

-- name: hold
SELECT pg_advisory_xact_lock(:number::bigint);
