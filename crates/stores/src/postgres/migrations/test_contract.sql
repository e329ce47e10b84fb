ALTER TABLE retain_sessions DROP COLUMN test_note;
