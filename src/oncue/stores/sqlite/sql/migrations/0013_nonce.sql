-- Which call claimed a job, so that the call can be repeated when its answer was lost.

-- The nonce of the call, a slash, and the place of the taker in it. No index: a repetition is rare,
-- and reads the live claims.
ALTER TABLE jobs ADD COLUMN nonce TEXT;

-- The words of settled claims now name the outcome instead of the kind of write. For a job that was
-- released or failed and is gone, this is the usual one.
UPDATE settled SET claims = replace(replace(replace(claims,
  ':complete:', ':succeeded:'), ':fail:', ':failed:'), ':release:', ':released:');
