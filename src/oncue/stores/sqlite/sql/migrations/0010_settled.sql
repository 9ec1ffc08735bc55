-- Settled claims on jobs that are gone, with marks by which one is found without reading them all.

-- What is remembered for a lease is forgotten here, once: the marks cannot be computed in SQL.
DROP TABLE settled;
-- A row is one call. `claims`: one word for each (oncue/core/fencing.py). A mark is four bytes of an
-- id (oncue/stores/sqlite/settled.py): `mark` that of the only claim, `marks` those of several. They
-- stand before the claims, which are long, so that these are read only where a mark is found.
CREATE TABLE settled (
  seq INTEGER PRIMARY KEY,
  until INTEGER NOT NULL,
  mark INTEGER,
  marks BLOB,
  claims TEXT NOT NULL
) STRICT;
CREATE INDEX settled_until ON settled (until);
CREATE INDEX settled_mark ON settled (mark) WHERE mark IS NOT NULL;
CREATE INDEX settled_marks ON settled (until) WHERE mark IS NULL;
