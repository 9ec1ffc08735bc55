-- name: is_there
SELECT to_regclass('oncue.meta') IS NOT NULL;

-- By what the database of a store is recognised, without telling its secret.
-- name: mark
SELECT sha256(value) FROM oncue.meta WHERE name = 'secret';

-- name: bound
SELECT set_config('idle_in_transaction_session_timeout', :ms::text, true);

-- name: isolation
SELECT current_setting('transaction_isolation');
