-- name: schedule_columns
s.name, s.cron, s.every_ms / 1000.0, s.timezone, s.queue, s.payload, s.owner, s.event_type,
s.resource_id, s.catch_up, s.overlap, s.paused, s.anchor_at, s.zone_digest, s.created_at,
s.updated_at, s.revision, s.next_at, s.wake_at, s.last_at, s.last_job_id,
EXISTS (SELECT 1 FROM jobs WHERE id = s.last_job_id AND finished_at IS NULL)

-- name: schedule
SELECT {schedule_columns} FROM schedules AS s WHERE s.name = :name;

-- name: schedules
SELECT {schedule_columns} FROM schedules AS s WHERE s.name > :after ORDER BY s.name LIMIT :limit;

-- name: waking
SELECT {schedule_columns} FROM schedules AS s
WHERE s.paused = 0 AND s.wake_at IS NOT NULL AND s.wake_at <= :until
ORDER BY s.wake_at LIMIT :limit;

-- name: remove_schedule
DELETE FROM schedules WHERE revision = :revision AND next_at IS :seen_next AND wake_at IS :seen_wake
RETURNING recorded;

-- name: put_schedule
INSERT INTO schedules (name, cron, every_ms, timezone, queue, payload, owner, event_type,
  resource_id, catch_up, overlap, paused, anchor_at, zone_digest, created_at, updated_at, next_at,
  wake_at, last_at, last_job_id, recorded)
VALUES (:name, :cron, :every_ms, :timezone, :queue, :payload, :owner, :event_type, :resource_id,
  :catch_up, :overlap, :paused, :anchor_at, :zone_digest, :created_at, :updated_at, :next_at,
  :wake_at, :last_at, :last_job_id, :recorded)
ON CONFLICT (name) DO NOTHING;

-- name: advance
UPDATE schedules SET next_at = :next_at, wake_at = :wake_at, last_at = :last_at,
  last_job_id = :last_job_id, recorded = recorded + :count
WHERE revision = :revision AND next_at IS :seen_next AND wake_at IS :seen_wake
RETURNING recorded - :count;

-- name: insert_occurrence
INSERT INTO jobs (id, queue, due_at, payload, priority, created_at, updated_at, owner, schedule,
                  epoch)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9)
ON CONFLICT (id) DO NOTHING;

-- name: withdraw
DELETE FROM jobs WHERE id = :id;

-- name: record_outcome
INSERT OR REPLACE INTO outcomes (schedule, place, number, fate, at, until, decided_at, count, job_id)
VALUES (:schedule, :place, :number, :fate, :at, :until, :decided_at, :count, :job_id);

-- name: redecide
UPDATE outcomes SET fate = :fate, decided_at = :decided_at
WHERE schedule = :name AND job_id = :job_id;

-- name: forget_outcomes
DELETE FROM outcomes WHERE schedule = :name;

-- name: outcomes
SELECT fate, at, until, decided_at, count, job_id FROM outcomes
WHERE schedule = :name ORDER BY number;

-- name: zone_digests
SELECT DISTINCT timezone, zone_digest FROM schedules WHERE zone_digest <> '';

-- name: schedules_by_zone
SELECT {schedule_columns} FROM schedules AS s
WHERE s.zone_digest <> '' AND s.timezone = :timezone AND s.zone_digest = :digest LIMIT :limit;
