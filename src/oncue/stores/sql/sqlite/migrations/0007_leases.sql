-- How long a lease was when it was given, so that one from before the clock was set back is known by
-- ending too late. In rows from before this, NULL: the time since the claim was last heard.
ALTER TABLE jobs ADD COLUMN lease_ms INTEGER;
ALTER TABLE ranges ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 60000;
