-- name: share
SELECT pg_advisory_xact_lock_shared(number) FROM unnest(:numbers::bigint[]) AS number;

-- name: hold
SELECT pg_advisory_xact_lock(:number::bigint);
