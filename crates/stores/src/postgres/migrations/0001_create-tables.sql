-- Everything is called retain_…, so that it can live in a database with others.
--
-- Ids and keys are text, compared byte by byte. What may hold any character at all, also U+0000,
-- is bytea: the bytes of the text. No body is ever touched by the database.

-- Every log has a number that is never used again. A log that is not (or no longer) a session's is
-- removed in chunks once its time has come: what is left of a deleted session, or an import that
-- was never finished.
CREATE TABLE retain_logs (
  number         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  purge_after_us bigint, -- 0: being purged
  app            text COLLATE "C", -- whose session an import is to become, until it is one
  user_id        text COLLATE "C"
);
CREATE INDEX retain_logs_to_purge ON retain_logs (purge_after_us) WHERE purge_after_us IS NOT NULL;
CREATE INDEX retain_logs_of_drafts ON retain_logs (app, user_id) WHERE app IS NOT NULL;

-- One row a session: its head. An append rewrites this row and nothing else that grows. No index
-- has a column that an append changes, and pages have room, so that the row stays where it is.
CREATE TABLE retain_sessions (
  number          bigint           NOT NULL PRIMARY KEY,
  app             text COLLATE "C" NOT NULL,
  user_id         text COLLATE "C" NOT NULL,
  id              text COLLATE "C" NOT NULL,
  revision        bigint           NOT NULL DEFAULT 0, -- ascending with every change of this row
  position        bigint           NOT NULL, -- the last position of the log
  last_update     float8           NOT NULL, -- seconds since 1970, as ADK keeps it
  create_time     float8           NOT NULL,
  touched_us      bigint           NOT NULL, -- the last write by the clock of the database
  ttl_us          bigint,
  lease_token     bigint           NOT NULL, -- begins at number << 32, so that no two sessions share one
  lease_until_us  bigint           NOT NULL DEFAULT 0,
  in_order        boolean          NOT NULL DEFAULT true, -- event times never went backwards
  state_bytes     bigint           NOT NULL,
  origin_id       text COLLATE "C",
  origin_position bigint,
  UNIQUE (app, user_id, id)
) WITH (fillfactor = 50);
CREATE INDEX retain_sessions_that_expire ON retain_sessions (number) WHERE ttl_us IS NOT NULL;

-- The logs. Position 0 is the state that the session was created with.
CREATE TABLE retain_events (
  log        bigint           NOT NULL,
  position   bigint           NOT NULL,
  event_id   text COLLATE "C" NOT NULL,
  invocation text COLLATE "C" NOT NULL,
  timestamp  float8           NOT NULL,
  body       bytea            NOT NULL,
  PRIMARY KEY (log, position),
  UNIQUE (log, event_id)
);

-- The session's own keys as they are, and what they were. A value of NULL: absent since then.
CREATE TABLE retain_state (
  log      bigint           NOT NULL,
  key      text COLLATE "C" NOT NULL,
  position bigint           NOT NULL,
  value    bytea,
  PRIMARY KEY (log, key)
) WITH (fillfactor = 80);
CREATE TABLE retain_state_past (
  log      bigint           NOT NULL,
  key      text COLLATE "C" NOT NULL,
  position bigint           NOT NULL,
  value    bytea,
  PRIMARY KEY (log, key, position)
);

-- Keys that sessions share. No user is called '': that row is the app's own.
CREATE TABLE retain_shared_state (
  app     text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  value   bytea            NOT NULL,
  PRIMARY KEY (app, user_id, key)
) WITH (fillfactor = 80);

-- How many bytes an owner's keys and values take, so that setting one need not count them all. Who
-- sets keys of an owner locks this row: first the app's, then the user's, then the session's head.
CREATE TABLE retain_shared_bytes (
  app     text COLLATE "C" NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  bytes   bigint           NOT NULL,
  PRIMARY KEY (app, user_id)
) WITH (fillfactor = 50);

-- Runs that wait for a session, in order.
CREATE TABLE retain_tickets (
  place    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session  bigint           NOT NULL REFERENCES retain_sessions (number) ON DELETE CASCADE,
  ticket   text COLLATE "C" NOT NULL,
  until_us bigint           NOT NULL,
  UNIQUE (session, ticket)
);

-- Artifacts: a row a version. No session is called '': those rows are the user's own. A name may be
-- longer than an index takes, so it is found by its hash.
CREATE TABLE retain_artifacts (
  number          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app             text COLLATE "C" NOT NULL,
  user_id         text COLLATE "C" NOT NULL,
  session         text COLLATE "C" NOT NULL,
  name            bytea            NOT NULL,
  name_hash       bytea            NOT NULL, -- SHA-256 of the name
  version         bigint           NOT NULL,
  create_time     float8           NOT NULL,
  mime_type       bytea,
  custom_metadata bytea            NOT NULL,
  -- The part in ADK's HTTP form, without its bytes.
  part            bytea            NOT NULL,
  data            bytea,
  UNIQUE (app, user_id, session, name_hash, version)
);

-- Long-term memory: whose it is, and how far it has come. A number is never used again, so that who
-- knew a user that was erased since can tell.
CREATE TABLE retain_memory_scopes (
  number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  app        text COLLATE "C" NOT NULL,
  user_id    text COLLATE "C" NOT NULL,
  revision   bigint NOT NULL DEFAULT 0, -- ascending with every change
  last_seq   bigint NOT NULL DEFAULT 0, -- the number of the newest memory that there ever was
  floor      bigint NOT NULL DEFAULT 0, -- what was touched up to here is not known any more
  touched    bigint NOT NULL DEFAULT 0, -- rows of retain_memory_touched
  tombstones bigint NOT NULL DEFAULT 0, -- rows of retain_memory_tombstones
  entries    bigint NOT NULL DEFAULT 0,
  bytes      bigint NOT NULL DEFAULT 0,
  minute     bigint NOT NULL DEFAULT 0,
  in_minute  bigint NOT NULL DEFAULT 0,
  UNIQUE (app, user_id)
) WITH (fillfactor = 50);

-- A user's memories, numbered in order of arrival.
CREATE TABLE retain_memories (
  scope           bigint           NOT NULL,
  seq             bigint           NOT NULL,
  id              text COLLATE "C" NOT NULL,
  revision        bigint           NOT NULL, -- since when it says what it says
  kind            smallint         NOT NULL, -- 0: a turn, 1: given as a memory
  origin          smallint         NOT NULL, -- 0: a person, 1: an agent, 2: a tool, 3: given as a memory
  tool            bytea,
  session         text COLLATE "C",
  position        bigint           NOT NULL,
  event_id        bytea,                     -- NULL: that of a turn is its id
  author          bytea,
  timestamp       float8           NOT NULL,
  created_us      bigint           NOT NULL,
  updated_us      bigint,                    -- changed by hand
  expires_us      bigint,
  body_hash       bigint           NOT NULL, -- of what was ingested
  custom_metadata bytea,
  content         bytea            NOT NULL, -- ADK's HTTP form
  fixed_model     bigint,                    -- of retain_memory_models
  fixed           bytea,
  embedding_model bigint,
  embedding       bytea,
  PRIMARY KEY (scope, seq)
);
CREATE INDEX retain_memories_by_id ON retain_memories (scope, id);
CREATE INDEX retain_memories_to_expire ON retain_memories (expires_us) WHERE expires_us IS NOT NULL;

-- What was changed or removed, so that an index need not be built anew.
CREATE TABLE retain_memory_touched (
  scope    bigint NOT NULL,
  revision bigint NOT NULL,
  seq      bigint NOT NULL,
  PRIMARY KEY (scope, revision, seq)
);

-- Hashes of what was forgotten.
CREATE TABLE retain_memory_tombstones (
  scope bigint NOT NULL,
  hash  bytea  NOT NULL,
  PRIMARY KEY (scope, hash)
);

-- What makes vectors.
CREATE TABLE retain_memory_models (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id     bytea  NOT NULL,
  dims   bigint NOT NULL,
  UNIQUE (id, dims)
);

-- API keys of a server. The secret itself is nowhere.
CREATE TABLE retain_api_keys (
  number       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order in which they were made
  id           text COLLATE "C" NOT NULL UNIQUE,
  name         bytea            NOT NULL,
  hash         bytea            NOT NULL, -- SHA-256 of the secret
  app          bytea,                     -- the only app it may touch
  user_id      bytea,                     -- the only user it may touch
  scopes       text COLLATE "C" NOT NULL, -- names with spaces between
  created_us   bigint           NOT NULL,
  expires_us   bigint,
  revoked_us   bigint,
  last_used_us bigint
);
