-- What `oncue doctor` asks (health.py). Nothing here reads a job.

-- name: server
SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
  current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
  pg_is_in_recovery(), current_user::text, current_setting('default_transaction_read_only') = 'on';

-- name: rights
SELECT c.relname::text, has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),
  has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'),
  pg_has_role(c.relowner, 'USAGE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema AND c.relkind IN ('r', 'p') ORDER BY c.relname;

-- Identity columns need no right on their sequences, but numbers that are reserved do.
-- name: sequences
SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = :schema
  AND CASE c.relkind WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') ELSE false END
ORDER BY c.relname;

-- name: role
SELECT current_user::text, has_schema_privilege(n.oid, 'USAGE'), has_schema_privilege(n.oid, 'CREATE')
FROM pg_namespace AS n WHERE n.nspname = :schema;

-- name: dead_rows
SELECT s.n_dead_tup, s.n_live_tup,
  extract(epoch FROM now() - greatest(s.last_autovacuum, s.last_vacuum))::bigint,
  current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on'
    AND NOT coalesce(
      (SELECT o.option_value IN ('false', 'off', 'no', '0') FROM pg_options_to_table(c.reloptions) AS o
       WHERE o.option_name = 'autovacuum_enabled'), false)
FROM pg_stat_all_tables AS s JOIN pg_class AS c ON c.oid = s.relid
WHERE s.schemaname = :schema AND s.relname = 'jobs';

-- name: indexes
SELECT t.relname::text, i.relname::text, x.indisprimary, x.indisvalid AND x.indisready
FROM pg_index AS x
JOIN pg_class AS i ON i.oid = x.indexrelid
JOIN pg_class AS t ON t.oid = x.indrelid
JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE n.nspname = :schema;

-- The least of what the server, the database and the role allow. Some are kept for administrators.
-- name: connections
SELECT least(
    current_setting('max_connections')::integer
      - current_setting('superuser_reserved_connections')::integer
      - coalesce(current_setting('reserved_connections', true)::integer, 0),
    (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
    (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user)),
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend');

-- Only transactions of this database hold back the vacuum of its tables.
-- name: long_transactions
SELECT a.pid::text, a.usename::text, a.application_name, a.state,
  extract(epoch FROM now() - a.xact_start)::bigint
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.xact_start < now() - make_interval(secs => :seconds::bigint)
  AND a.pid <> pg_backend_pid() AND a.backend_type <> 'autovacuum worker'
  AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
UNION ALL
SELECT p.gid, p.owner::text, 'prepared transaction', 'prepared',
  extract(epoch FROM now() - p.prepared)::bigint
FROM pg_prepared_xacts AS p
WHERE p.database = current_database() AND p.prepared < now() - make_interval(secs => :seconds::bigint)
ORDER BY 5 DESC;

-- Those that have locked a table of the store against reading or writing, that use one and are waited
-- for, or that have written to one and stand idle. Locks that are held for less than a second are usual.
-- name: blockers
WITH waited_for AS MATERIALIZED (
  SELECT unnest(pg_blocking_pids(w.pid)) AS pid FROM pg_locks AS w WHERE NOT w.granted)
SELECT a.pid::text, a.usename::text, a.application_name, a.state,
  extract(epoch FROM now() - a.xact_start)::bigint, coalesce(l.locked, '{}'),
  l.locked IS NOT NULL OR a.pid IN (SELECT pid FROM waited_for)
FROM pg_stat_activity AS a JOIN (
  SELECT l.pid, array_agg(DISTINCT c.relname::text) FILTER (WHERE l.mode IN
    ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')) AS locked,
    bool_or(l.mode IN ('RowShareLock', 'RowExclusiveLock')) AS writes
  FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE n.nspname = :schema AND c.relkind IN ('r', 'p') AND l.granted AND l.locktype = 'relation'
  GROUP BY l.pid) AS l ON l.pid = a.pid
WHERE a.datname = current_database() AND a.xact_start < now() - interval '1 second'
  AND (l.locked IS NOT NULL OR a.pid IN (SELECT pid FROM waited_for)
    OR (l.writes AND starts_with(a.state, 'idle in transaction')))
ORDER BY 5 DESC;

-- Whether the role is told what the sessions of others do.
-- name: sees_all
SELECT pg_has_role('pg_read_all_stats', 'USAGE')
  OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);

-- name: idle_slots
SELECT s.slot_name::text, s.slot_type, s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL,
  CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint END
FROM pg_replication_slots AS s
WHERE NOT s.active AND s.wal_status IS DISTINCT FROM 'lost'
  AND (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL OR s.restart_lsn IS NOT NULL)
ORDER BY s.slot_name;
