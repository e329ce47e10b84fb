-- Every log has a number that is never used again. A log that is not (or no longer) a session's is
-- removed in chunks once its time has come: what is left of a deleted session, or an import that
-- was never finished.
CREATE TABLE logs (
  number         INTEGER PRIMARY KEY AUTOINCREMENT,
  purge_after_us INTEGER, -- 0: being purged
  app            TEXT,    -- whose session an import is to become, until it is one
  user           TEXT
);
CREATE INDEX logs_to_purge ON logs (purge_after_us) WHERE purge_after_us IS NOT NULL;

-- One row a session. An append rewrites this row and nothing else that grows.
CREATE TABLE sessions (
  number          INTEGER PRIMARY KEY REFERENCES logs (number),
  app             TEXT    NOT NULL,
  user            TEXT    NOT NULL,
  id              TEXT    NOT NULL,
  position        INTEGER NOT NULL, -- the last position of the log
  last_update     REAL    NOT NULL, -- seconds since 1970, as ADK keeps it
  create_time     REAL    NOT NULL,
  touched_us      INTEGER NOT NULL, -- the last write by our own clock
  ttl_us          INTEGER,
  lease_token     INTEGER NOT NULL, -- begins at number << 32, so that no two sessions share one
  lease_until_us  INTEGER NOT NULL DEFAULT 0,
  in_order        INTEGER NOT NULL DEFAULT 1, -- event times never went backwards
  state_bytes     INTEGER NOT NULL,
  origin_id       TEXT,
  origin_position INTEGER,
  UNIQUE (app, user, id)
);

-- The logs. key = number << 32 | position: a log lies together, and its end is found by arithmetic.
-- Position 0 is the state that the session was created with.
CREATE TABLE events (
  key        INTEGER PRIMARY KEY,
  event_id   TEXT NOT NULL,
  invocation TEXT NOT NULL,
  timestamp  REAL NOT NULL,
  body       TEXT NOT NULL
);
CREATE UNIQUE INDEX events_by_id ON events (key >> 32, event_id);

-- The session's own keys as they are, and what they were. A value of NULL: absent since then.
CREATE TABLE state (
  log      INTEGER NOT NULL,
  key      TEXT    NOT NULL,
  position INTEGER NOT NULL,
  value    TEXT,
  PRIMARY KEY (log, key)
) WITHOUT ROWID;
CREATE TABLE state_past (
  log      INTEGER NOT NULL,
  key      TEXT    NOT NULL,
  position INTEGER NOT NULL,
  value    TEXT,
  PRIMARY KEY (log, key, position)
) WITHOUT ROWID;

-- Keys that sessions share. No user is called '': that row is the app's own.
CREATE TABLE shared_state (
  app   TEXT NOT NULL,
  user  TEXT NOT NULL,
  key   TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (app, user, key)
) WITHOUT ROWID;

-- How many bytes an owner's keys and values take, so that setting one need not count them all.
CREATE TABLE shared_bytes (
  app   TEXT NOT NULL,
  user  TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (app, user)
) WITHOUT ROWID;

-- Runs that wait for a session, in order.
CREATE TABLE tickets (
  place    INTEGER PRIMARY KEY AUTOINCREMENT,
  session  INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
  ticket   TEXT    NOT NULL,
  until_us INTEGER NOT NULL,
  UNIQUE (session, ticket)
);
