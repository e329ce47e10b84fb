-- The migrations that were applied, with the checksum of each, and which programs work with them.
CREATE TABLE retain_migrations (
  version        INTEGER NOT NULL PRIMARY KEY,
  name           TEXT    NOT NULL,
  checksum       TEXT    NOT NULL, -- SHA-256 of the migration
  oldest_program INTEGER NOT NULL, -- lowest schema version of a program that works on the database
  program        TEXT    NOT NULL  -- version of the program that applied it
);
