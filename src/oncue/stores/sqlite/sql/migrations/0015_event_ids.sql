-- Every id of an event: its own, and others under which the same fact came again.
CREATE TABLE event_ids (
  id TEXT PRIMARY KEY,
  event_n INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO event_ids (id, event_n) SELECT id, n FROM events ORDER BY id;
CREATE INDEX event_ids_event ON event_ids (event_n);

CREATE TRIGGER events_named AFTER INSERT ON events BEGIN
  INSERT INTO event_ids (id, event_n) VALUES (NEW.id, NEW.n) ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER events_forgotten AFTER DELETE ON events BEGIN
  DELETE FROM event_ids WHERE event_n = OLD.n;
END;
