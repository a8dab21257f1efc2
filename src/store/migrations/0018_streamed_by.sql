-- Whose stream a computer's last one was: it ends when that account loses the computer. NULL: nobody's that is known.
ALTER TABLE computers ADD COLUMN streamed_by TEXT;
