-- Long-term memory: whose it is, and how far it has come. A number is never used again, so that who
-- knew a user that was erased since can tell.
CREATE TABLE memory_scopes (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,
  app        TEXT    NOT NULL,
  user       TEXT    NOT NULL,
  revision   INTEGER NOT NULL DEFAULT 0, -- ascending with every change
  last_seq   INTEGER NOT NULL DEFAULT 0, -- the number of the newest memory that there ever was
  floor      INTEGER NOT NULL DEFAULT 0, -- what was touched up to here is not known any more
  touched    INTEGER NOT NULL DEFAULT 0, -- rows of memory_touched
  tombstones INTEGER NOT NULL DEFAULT 0, -- rows of memory_tombstones
  entries    INTEGER NOT NULL DEFAULT 0,
  bytes      INTEGER NOT NULL DEFAULT 0,
  minute     INTEGER NOT NULL DEFAULT 0,
  in_minute  INTEGER NOT NULL DEFAULT 0,
  UNIQUE (app, user)
);

-- key = scope << 32 | number of the memory: a user's memories lie together, in order of arrival.
CREATE TABLE memories (
  key             INTEGER PRIMARY KEY,
  id              TEXT    NOT NULL,
  revision        INTEGER NOT NULL, -- since when it says what it says
  kind            INTEGER NOT NULL, -- 0: a turn, 1: given as a memory
  origin          INTEGER NOT NULL, -- 0: a person, 1: an agent, 2: a tool, 3: given as a memory
  tool            TEXT,
  session         TEXT,
  position        INTEGER NOT NULL,
  event_id        TEXT,             -- NULL: that of a turn is its id
  author          TEXT,
  timestamp       REAL    NOT NULL,
  created_us      INTEGER NOT NULL,
  updated_us      INTEGER,          -- changed by hand
  expires_us      INTEGER,
  body_hash       INTEGER NOT NULL, -- of what was ingested
  custom_metadata TEXT,
  content         TEXT    NOT NULL, -- ADK's HTTP form
  fixed_model     INTEGER,          -- of memory_models
  fixed           BLOB,
  embedding_model INTEGER,
  embedding       BLOB
);
CREATE INDEX memories_by_id ON memories (key >> 32, id);
CREATE INDEX memories_to_expire ON memories (expires_us) WHERE expires_us IS NOT NULL;

-- What was changed or removed, so that an index need not be built anew.
CREATE TABLE memory_touched (
  scope    INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  PRIMARY KEY (scope, revision, seq)
) WITHOUT ROWID;

-- Hashes of what was forgotten.
CREATE TABLE memory_tombstones (
  scope INTEGER NOT NULL,
  hash  BLOB    NOT NULL,
  PRIMARY KEY (scope, hash)
) WITHOUT ROWID;

-- What makes vectors.
CREATE TABLE memory_models (
  number INTEGER PRIMARY KEY,
  id     TEXT    NOT NULL,
  dims   INTEGER NOT NULL,
  UNIQUE (id, dims)
);
