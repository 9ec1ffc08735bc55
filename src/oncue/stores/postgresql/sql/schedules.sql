-- name: schedule_columns
s.name, s.cron, s.every_ms / 1000.0::double precision, s.timezone, s.queue, s.payload, s.owner, s.event_type,
s.resource_id, s.catch_up, s.overlap, s.paused, s.anchor_at, s.zone_digest, s.created_at,
s.updated_at, s.revision, s.next_at, s.wake_at, s.last_at, s.last_job_id,
EXISTS (SELECT 1 FROM oncue.jobs WHERE id = s.last_job_id AND finished_at IS NULL)

-- name: schedule
SELECT {schedule_columns} FROM oncue.schedules AS s WHERE s.name = :name;

-- name: schedules
SELECT {schedule_columns} FROM oncue.schedules AS s WHERE s.name > :after ORDER BY s.name LIMIT :limit;

-- name: waking
SELECT {schedule_columns} FROM oncue.schedules AS s
WHERE NOT s.paused AND s.wake_at IS NOT NULL AND s.wake_at <= :until
ORDER BY s.wake_at LIMIT :limit;

-- name: remove_schedule
DELETE FROM oncue.schedules WHERE revision = :revision
  AND next_at IS NOT DISTINCT FROM :seen_next::bigint
  AND wake_at IS NOT DISTINCT FROM :seen_wake::bigint
RETURNING recorded;

-- name: put_schedule
INSERT INTO oncue.schedules (name, cron, every_ms, timezone, queue, payload, owner, event_type,
  resource_id, catch_up, overlap, paused, anchor_at, zone_digest, created_at, updated_at, next_at,
  wake_at, last_at, last_job_id, recorded)
VALUES (:name, :cron, :every_ms, :timezone, :queue, :payload, :owner, :event_type, :resource_id,
  :catch_up, :overlap, :paused, :anchor_at, :zone_digest, :created_at, :updated_at, :next_at,
  :wake_at, :last_at, :last_job_id, :recorded)
ON CONFLICT (name) DO NOTHING;

-- name: advance
UPDATE oncue.schedules SET next_at = :next_at, wake_at = :wake_at, last_at = :last_at,
  last_job_id = :last_job_id, recorded = recorded + :count::bigint
WHERE revision = :revision
  AND next_at IS NOT DISTINCT FROM :seen_next::bigint
  AND wake_at IS NOT DISTINCT FROM :seen_wake::bigint
RETURNING recorded - :count::bigint;

-- name: record_outcome
INSERT INTO oncue.outcomes
  (schedule, place, number, fate, at, until, decided_at, count, job_id)
VALUES (:schedule, :place, :number, :fate, :at, :until, :decided_at, :count, :job_id)
ON CONFLICT (schedule, place) DO UPDATE SET number = excluded.number, fate = excluded.fate,
  at = excluded.at, until = excluded.until, decided_at = excluded.decided_at,
  count = excluded.count, job_id = excluded.job_id;

-- name: redecide
UPDATE oncue.outcomes SET fate = :fate, decided_at = :decided_at
WHERE schedule = :name AND job_id = :job_id;

-- name: forget_outcomes
DELETE FROM oncue.outcomes WHERE schedule = :name;

-- name: outcomes
SELECT fate, at, until, decided_at, count, job_id FROM oncue.outcomes
WHERE schedule = :name ORDER BY number;

-- name: zone_digests
SELECT DISTINCT timezone, zone_digest FROM oncue.schedules WHERE zone_digest <> '';

-- name: schedules_by_zone
SELECT {schedule_columns} FROM oncue.schedules AS s
WHERE s.zone_digest <> '' AND s.timezone = :timezone AND s.zone_digest = :digest LIMIT :limit;
