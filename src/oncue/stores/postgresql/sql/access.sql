-- name: tokens
SELECT id, name, digest, scopes, created_at FROM oncue.access_tokens ORDER BY created_at, id;

-- name: put
INSERT INTO oncue.access_tokens (id, name, digest, scopes, created_at)
VALUES (:id, :name, :digest, :scopes, :created_at)
ON CONFLICT (id) DO NOTHING;

-- name: remove
DELETE FROM oncue.access_tokens WHERE id = :id;
