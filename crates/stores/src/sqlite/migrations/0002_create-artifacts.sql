-- Artifacts: a row a version. No session is called '': those rows are the user's own.
CREATE TABLE artifacts (
  number          INTEGER PRIMARY KEY,
  app             TEXT    NOT NULL,
  user            TEXT    NOT NULL,
  session         TEXT    NOT NULL,
  name            TEXT    NOT NULL,
  version         INTEGER NOT NULL,
  create_time     REAL    NOT NULL,
  mime_type       TEXT,
  custom_metadata TEXT    NOT NULL,
  -- The part in ADK's HTTP form, without its bytes.
  part            TEXT    NOT NULL,
  data            BLOB,
  UNIQUE (app, user, session, name, version)
);
