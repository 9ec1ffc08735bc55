-- name: share
SELECT pg_advisory_xact_lock_shared(number) FROM unnest(:numbers::bigint[]) AS number;

-- For so many milliseconds each lock is waited for in this transaction; 0: without an end.
-- name: patience
SELECT set_config('lock_timeout', :ms::text, true);

-- name: hold
SELECT pg_advisory_xact_lock(:number::bigint);
