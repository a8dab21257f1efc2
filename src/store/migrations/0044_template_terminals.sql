-- Terminals of the template that a computer was launched from, as JSON: [NAME, TITLE or null] for each (docs/templates.md).
ALTER TABLE computers ADD COLUMN terminals TEXT NOT NULL DEFAULT '[]';
