ALTER TABLE sessions ADD COLUMN test_note TEXT;
