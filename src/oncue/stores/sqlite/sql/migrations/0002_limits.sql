-- The limits of a queue, read with the pause by every claim, and the bucket of its rate: turns in
-- billionths, as counted at `filled_at`. A queue that never had a rate has no bucket.

ALTER TABLE queues ADD COLUMN rate_per_second REAL
  GENERATED ALWAYS AS (json_extract(settings, '$.rate_per_second')) VIRTUAL;
ALTER TABLE queues ADD COLUMN concurrency INTEGER
  GENERATED ALWAYS AS (json_extract(settings, '$.concurrency')) VIRTUAL;
ALTER TABLE queues ADD COLUMN turns INTEGER CHECK (turns >= 0);
ALTER TABLE queues ADD COLUMN filled_at INTEGER CHECK ((filled_at IS NULL) = (turns IS NULL));
