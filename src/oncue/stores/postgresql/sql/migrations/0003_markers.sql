-- The pair of a rule (`core/pair.py`): each of the two names the other one, with its own life when they
-- became the pair, and the newest stamp that the rule had accepted then.
ALTER TABLE oncue.dependencies
  ADD COLUMN pair_n bigint,
  ADD COLUMN pair_life_seconds bigint,
  ADD COLUMN pair_since bigint;

ALTER TABLE oncue.accepted ADD COLUMN is_marker boolean NOT NULL DEFAULT false;
CREATE INDEX accepted_marker ON oncue.accepted (dependency_n, stamp) WHERE is_marker;

-- By a trigger, so that programs of the step before do it too. For each row: it sees those that its
-- statement inserted before.
CREATE FUNCTION oncue.mark_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  own record;
BEGIN
  SELECT pair_n, pair_life_seconds INTO own FROM oncue.dependencies WHERE n = NEW.dependency_n;
  IF own.pair_n IS NOT NULL THEN
    NEW.is_marker := EXISTS (
      SELECT 1 FROM oncue.dependencies AS p JOIN oncue.accepted AS a ON a.dependency_n = p.n
        AND a.stamp BETWEEN NEW.stamp - p.pair_life_seconds * 1000000
        AND NEW.stamp + own.pair_life_seconds * 1000000
      WHERE p.n = own.pair_n);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER marked BEFORE INSERT ON oncue.accepted
FOR EACH ROW EXECUTE FUNCTION oncue.mark_accepted();
