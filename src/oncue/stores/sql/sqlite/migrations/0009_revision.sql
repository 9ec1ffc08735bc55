-- How often the settings were changed: queues, schedules, access tokens. A process that notices a
-- commit of another one learns here whether it has to read them again. Triggers count, so that no
-- writer can forget to. A queue's bucket and a schedule's progress are no settings.
CREATE TABLE revision (settings INTEGER NOT NULL) STRICT;
INSERT INTO revision (settings) VALUES (0);

CREATE TRIGGER queues_inserted AFTER INSERT ON queues BEGIN
  UPDATE revision SET settings = settings + 1;
END;
CREATE TRIGGER queues_updated AFTER UPDATE OF settings, paused ON queues BEGIN
  UPDATE revision SET settings = settings + 1;
END;
CREATE TRIGGER queues_deleted AFTER DELETE ON queues BEGIN
  UPDATE revision SET settings = settings + 1;
END;
CREATE TRIGGER schedules_inserted AFTER INSERT ON schedules BEGIN
  UPDATE revision SET settings = settings + 1;
END;
CREATE TRIGGER schedules_deleted AFTER DELETE ON schedules BEGIN
  UPDATE revision SET settings = settings + 1;
END;
CREATE TRIGGER access_tokens_inserted AFTER INSERT ON access_tokens BEGIN
  UPDATE revision SET settings = settings + 1;
END;
CREATE TRIGGER access_tokens_deleted AFTER DELETE ON access_tokens BEGIN
  UPDATE revision SET settings = settings + 1;
END;
