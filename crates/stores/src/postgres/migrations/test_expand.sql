ALTER TABLE retain_sessions ADD COLUMN test_note text;
