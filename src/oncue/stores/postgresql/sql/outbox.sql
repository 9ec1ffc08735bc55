-- By what the database of a store is recognised, without telling its secret.
-- name: mark
SELECT sha256(value) FROM oncue.meta WHERE name = 'secret';
