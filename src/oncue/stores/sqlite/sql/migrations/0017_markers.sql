-- The pair of a rule (`core/pair.py`): each of the two names the other one, with its own life when they
-- became the pair, and the newest stamp that the rule had accepted then.
ALTER TABLE dependencies ADD COLUMN pair_n INTEGER;
ALTER TABLE dependencies ADD COLUMN pair_life_seconds INTEGER;
ALTER TABLE dependencies ADD COLUMN pair_since INTEGER;

ALTER TABLE accepted ADD COLUMN is_marker INTEGER NOT NULL DEFAULT 0;
CREATE INDEX accepted_marker ON accepted (dependency_n, stamp) WHERE is_marker = 1;

-- By a trigger, so that a program that opened the file before this step does it too.
CREATE TRIGGER accepted_marked AFTER INSERT ON accepted
WHEN (SELECT pair_n FROM dependencies WHERE n = NEW.dependency_n) IS NOT NULL BEGIN
  UPDATE accepted SET is_marker = 1
  WHERE dependency_n = NEW.dependency_n AND stamp = NEW.stamp AND event_n = NEW.event_n
    AND EXISTS (
      SELECT 1 FROM dependencies AS d
      JOIN dependencies AS p ON p.n = d.pair_n
      JOIN accepted AS a ON a.dependency_n = p.n
        AND a.stamp BETWEEN NEW.stamp - p.pair_life_seconds * 1000000
        AND NEW.stamp + d.pair_life_seconds * 1000000
      WHERE d.n = NEW.dependency_n
    );
END;
