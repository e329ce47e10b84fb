-- API keys of a server. The secret itself is nowhere.
CREATE TABLE api_keys (
  number       INTEGER PRIMARY KEY, -- in the order in which they were made
  id           TEXT    NOT NULL UNIQUE,
  name         TEXT    NOT NULL,
  hash         BLOB    NOT NULL, -- SHA-256 of the secret
  app          TEXT,             -- the only app it may touch
  user         TEXT,             -- the only user it may touch
  scopes       TEXT    NOT NULL, -- names with spaces between
  created_us   INTEGER NOT NULL,
  expires_us   INTEGER,
  revoked_us   INTEGER,
  last_used_us INTEGER
);
