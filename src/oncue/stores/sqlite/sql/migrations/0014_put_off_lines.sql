-- Put-off jobs of one line by the moment at which they return: a claim that looks for those of a
-- better rank reads only the ones whose moment has come, however many are put off.
CREATE INDEX jobs_put_off_lines ON jobs (queue, line, not_before)
  WHERE state = 'scheduled' AND not_before IS NOT NULL;
