ALTER TABLE sessions DROP COLUMN test_note;
