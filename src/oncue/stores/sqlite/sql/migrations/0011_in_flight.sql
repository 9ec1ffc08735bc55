-- How many jobs a dispatcher has in flight under a range: what counts for the concurrency of a queue.

ALTER TABLE ranges ADD COLUMN in_flight INTEGER NOT NULL DEFAULT 0;
