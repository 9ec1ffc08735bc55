-- How often the settings were changed: queues, schedules, access tokens. A process that notices a
-- commit of another one learns here whether it has to read them again. Triggers count, so that no
-- writer can forget to. A queue's bucket and a schedule's progress are no settings.
--
-- `queues` counts also the queues that came with their first job. They have the default settings, so
-- nobody has to be told, unless the queue is built in and has a sink by default.
CREATE TABLE revision (settings INTEGER NOT NULL, queues INTEGER NOT NULL) STRICT;
INSERT INTO revision (settings, queues) VALUES (0, 0);

CREATE TRIGGER queues_inserted AFTER INSERT ON queues BEGIN
  UPDATE revision SET queues = queues + 1, settings = settings
    + (NEW.settings <> '{}' OR NEW.paused OR NEW.name IN ('tasks', 'rules'));
END;
CREATE TRIGGER queues_updated AFTER UPDATE OF settings, paused ON queues BEGIN
  UPDATE revision SET settings = settings + 1, queues = queues + 1;
END;
CREATE TRIGGER queues_deleted AFTER DELETE ON queues BEGIN
  UPDATE revision SET settings = settings + 1, queues = queues + 1;
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
