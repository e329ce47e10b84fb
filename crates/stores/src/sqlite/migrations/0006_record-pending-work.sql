-- Work that must follow a run, and the size of the log, are in the session's row, so that an append
-- records them without another write.
ALTER TABLE sessions ADD COLUMN pending_work INTEGER NOT NULL DEFAULT 0; -- position of the last event that needs it << 8 | kinds; 0: none
ALTER TABLE sessions ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0; -- bytes of the events at positions 1 to sized_to
ALTER TABLE sessions ADD COLUMN sized_to INTEGER NOT NULL DEFAULT 0; -- less than position after an append of an older program

-- Which process runs a periodic task, such as the sweep, and until when.
CREATE TABLE task_leases (
  task     TEXT    NOT NULL PRIMARY KEY,
  holder   TEXT    NOT NULL,
  until_us INTEGER NOT NULL
) WITHOUT ROWID;

-- How often users were erased. A write that was prepared before an erase is refused after it.
CREATE TABLE erasures (count INTEGER NOT NULL);
INSERT INTO erasures (count) VALUES (0);
