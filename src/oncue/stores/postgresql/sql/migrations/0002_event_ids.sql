-- Every id of an event: its own, and others under which the same fact came again. Kept by triggers,
-- so that programs of the step before, which do not know this table, can work beside others.
CREATE TABLE oncue.event_ids (
  id text COLLATE "C" PRIMARY KEY,
  event_n bigint NOT NULL
);
CREATE INDEX event_ids_event ON oncue.event_ids (event_n);

CREATE FUNCTION oncue.name_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO oncue.event_ids (id, event_n) SELECT id, n FROM changed ORDER BY id
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER named AFTER INSERT ON oncue.events REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION oncue.name_events();

CREATE FUNCTION oncue.forget_event_ids() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM oncue.event_ids WHERE event_n IN (SELECT n FROM changed);
  RETURN NULL;
END $$;
CREATE TRIGGER forgotten AFTER DELETE ON oncue.events REFERENCING OLD TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION oncue.forget_event_ids();

-- Nobody stores an event between the triggers, which wait for those who do, and the end of the step.
INSERT INTO oncue.event_ids (id, event_n) SELECT id, n FROM oncue.events ON CONFLICT DO NOTHING;
