-- The open range of a queue may be that of a worker, which took many jobs at once: `nonce` is that of
-- its claim, `ns` is the JSON list of the jobs' rows, `jobs_digest` tells them from others. Whoever
-- closes such a range, also a program that knows only the step before, splits it: each job has a claim
-- of its own from then on, as `claims.sql: claim` would have made it when the range was opened.
ALTER TABLE ranges ADD COLUMN nonce TEXT;
ALTER TABLE ranges ADD COLUMN ns TEXT;
ALTER TABLE ranges ADD COLUMN jobs_digest BLOB;
CREATE INDEX ranges_of_workers ON ranges (queue) WHERE nonce IS NOT NULL;

CREATE TRIGGER ranges_split AFTER UPDATE OF cutoff ON ranges
WHEN NEW.cutoff IS NULL AND NEW.nonce IS NOT NULL BEGIN
  UPDATE jobs SET state = 'dispatched', epoch = epoch + 1, attempt = attempt + 1,
    worker = OLD.dispatcher, claimed_at = OLD.opened_at, updated_at = OLD.opened_at,
    lease_until = OLD.lease_until, lease_ms = OLD.lease_ms, lease_asked = 0,
    alone = json_array_length(OLD.ns) = 1, nonce = OLD.nonce, overlong_at = NULL
  WHERE n IN (SELECT value FROM json_each(OLD.ns)) AND +state = 'scheduled';
  UPDATE ranges SET nonce = NULL, ns = NULL, jobs_digest = NULL WHERE queue = OLD.queue;
END;
