-- Which programs work with each migration.
ALTER TABLE retain_migrations
  ADD COLUMN oldest_program bigint NOT NULL DEFAULT 0, -- lowest schema version of a program that works on the database
  ADD COLUMN program        text   NOT NULL DEFAULT ''; -- version of the program that applied it
