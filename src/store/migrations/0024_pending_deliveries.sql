-- A pair of a file and a computer is to be delivered only while its row says so. Before, a pair without a row was.
INSERT INTO deliveries (file_id, computer_id, outcome, delivered_at)
SELECT f.id, c.id, 'pending', 0
FROM files f
JOIN computers c ON c.workspace_id = f.workspace_id AND (f.computer_id IS NULL OR f.computer_id = c.id)
WHERE f.source = 'upload'
  AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.file_id = f.id AND d.computer_id = c.id);
