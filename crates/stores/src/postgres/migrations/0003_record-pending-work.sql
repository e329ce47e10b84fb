-- Work that must follow a run, and the size of the log, are in the session's row, so that an append
-- records them without another write. No index has these columns, so that updates stay on the page.
ALTER TABLE retain_sessions
  ADD COLUMN pending_work bigint NOT NULL DEFAULT 0, -- position of the last event that needs it << 8 | kinds; 0: none
  ADD COLUMN log_bytes    bigint NOT NULL DEFAULT 0, -- bytes of the events at positions 1 to sized_to
  ADD COLUMN sized_to     bigint NOT NULL DEFAULT 0; -- less than position after an append of an older program

-- Which process runs a periodic task, such as the sweep, and until when.
CREATE TABLE retain_task_leases (
  task     text COLLATE "C" NOT NULL PRIMARY KEY,
  holder   text COLLATE "C" NOT NULL,
  until_us bigint           NOT NULL
);

-- How often users were erased. A write that was prepared before an erase is refused after it.
CREATE TABLE retain_erasures (count bigint NOT NULL);
INSERT INTO retain_erasures (count) VALUES (0);
