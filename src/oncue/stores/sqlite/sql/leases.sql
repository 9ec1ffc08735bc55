-- The record of the last look is a row of `meta`, so the pieces of it are one value.

-- name: running
SELECT EXISTS (SELECT 1 FROM jobs
               WHERE state IN ('dispatched', 'executing') AND reclaim_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM ranges WHERE cutoff IS NOT NULL);

-- name: last_look
SELECT value FROM meta WHERE name = 'last_look';

-- name: astray
SELECT EXISTS (SELECT 1 FROM jobs WHERE state IN ('dispatched', 'executing')
                 AND reclaim_at IS NOT NULL AND lease_until > :now + {lease_length} + :jump)
    OR EXISTS (SELECT 1 FROM ranges
               WHERE cutoff IS NOT NULL AND lease_until > :now + lease_ms + :jump);

-- name: record_look
INSERT INTO meta (name, value) VALUES ('last_look', :look)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- As `core/missed.py`: moved_lease, moved_timeout and moved_stamp, for all live claims at once.
-- name: move_claims
UPDATE jobs SET
  lease_until = CASE WHEN lease_until > :now + {lease_length} + :jump THEN :now + {lease_length}
    ELSE max(lease_until, min(lease_until + :missed, :now + {lease_length})) END,
  overlong_at = CASE WHEN claimed_at > :now + :jump THEN overlong_at - (claimed_at - :now)
    ELSE overlong_at + min(:missed, max(:now - claimed_at, 0)) END,
  claimed_at = CASE WHEN claimed_at > :now + :jump THEN :now ELSE claimed_at END,
  updated_at = CASE WHEN updated_at > :now + :jump THEN :now ELSE updated_at END
WHERE state IN ('dispatched', 'executing') AND reclaim_at IS NOT NULL
  AND (:missed > 0 OR lease_until > :now + {lease_length} + :jump
       OR max(claimed_at, updated_at) > :now + :jump);

-- name: lease_length
coalesce(lease_ms, max(0, lease_until - updated_at))

-- name: shortened_ranges
SELECT queue, :now + lease_ms FROM ranges
WHERE cutoff IS NOT NULL AND lease_until > :now + lease_ms + :jump;

-- The range of a worker stands for claims, and moves as they do.
-- name: move_ranges
UPDATE ranges SET
  lease_until = CASE WHEN lease_until > :now + lease_ms + :jump THEN :now + lease_ms
    ELSE max(lease_until, min(lease_until + iif(nonce IS NULL, :missed, :missed_by_claims),
                              :now + lease_ms)) END,
  opened_at = iif(nonce IS NOT NULL AND opened_at > :now + :jump, :now, opened_at)
WHERE cutoff IS NOT NULL;

-- As `core/putoff.py`: moved_return.
-- name: move_returns
UPDATE jobs SET not_before = :latest
WHERE state = 'scheduled' AND queue = :queue AND not_before IS NOT NULL
  AND not_before > :latest + :jump;

-- As `core/rate.py`: begun_again.
-- name: begin_buckets_again
UPDATE queues SET turns = 0, filled_at = :now WHERE filled_at > :now + :overtaking;
