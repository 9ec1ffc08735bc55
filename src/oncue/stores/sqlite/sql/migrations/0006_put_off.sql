-- A job that its sink refused for now is put off: it waits until `not_before`, and `refusals` counts
-- how often in a row it was refused. At the end of the row and outside the statement that inserts
-- ordinary jobs, so they cost it nothing.
ALTER TABLE jobs ADD COLUMN not_before INTEGER;
ALTER TABLE jobs ADD COLUMN refusals INTEGER NOT NULL DEFAULT 0;

-- The line in which a job waits: its rank, or 100 more while it is put off. The hand-over reads only
-- the lines below 100, so put-off jobs cost it nothing, however many there are.
ALTER TABLE jobs ADD COLUMN line INTEGER
  GENERATED ALWAYS AS (rank + 100 * (not_before IS NOT NULL)) VIRTUAL;
DROP INDEX jobs_ready;
CREATE INDEX jobs_ready ON jobs (queue, line, due_at, id) WHERE state = 'scheduled';
CREATE INDEX jobs_put_off ON jobs (queue, not_before)
  WHERE state = 'scheduled' AND not_before IS NOT NULL;
