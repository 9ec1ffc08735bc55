-- What a claim remembers of itself, and settled claims on jobs that are gone.

-- Neither has a CHECK: every insert would pay for it, and only the claims of one store write them.
-- `alone`: it was the only job of its claim. Claims that are live now count as fetched with others.
ALTER TABLE jobs ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;
-- `lease_asked`: the worker asked for the lease by a heartbeat, so hand-over does not end it.
ALTER TABLE jobs ADD COLUMN lease_asked INTEGER NOT NULL DEFAULT 0;

-- One row for each call that settled claims whose jobs went at once (retention 0), so that the same
-- call is recognised when it is repeated. `claims`: one word for each (oncue/core/fencing.py).
CREATE TABLE settled (
  seq INTEGER PRIMARY KEY,
  until INTEGER NOT NULL,
  claims TEXT NOT NULL
) STRICT;
CREATE INDEX settled_until ON settled (until);
