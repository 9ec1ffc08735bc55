-- How long a lease was when it was given, so that one from before the clock was set back is known by
-- ending too late. In rows from before this, NULL: the time since the claim was last heard.
ALTER TABLE jobs ADD COLUMN lease_ms INTEGER;
ALTER TABLE ranges ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 60000;

-- Ids that are only remembered are forgotten by their age alone: their queue may be deleted by then.
DROP INDEX jobs_hidden;
CREATE INDEX jobs_hidden ON jobs (finished_at) WHERE hidden = 1;
