-- Who may do what with a memory on PostgreSQL. Run it once, as owner of the base, after the memory
-- "tickets" was made; for another memory, replace its name here.

-- Appends and reads, and no more: what applications log in as.
CREATE ROLE ocrr_service LOGIN;
GRANT USAGE ON SCHEMA tickets TO ocrr_service;
GRANT SELECT ON tickets.about, tickets.entries TO ocrr_service;
GRANT INSERT ON tickets.entries TO ocrr_service;

-- Reads: takes heads, verifies, asks.
CREATE ROLE ocrr_auditor LOGIN;
GRANT USAGE ON SCHEMA tickets TO ocrr_auditor;
GRANT SELECT ON tickets.about, tickets.entries TO ocrr_auditor;

-- Erases, tells so in a new entry, and vacuums. It can overwrite content with something else, too,
-- which everybody who reads will notice: it cannot write the hashes anew.
CREATE ROLE ocrr_eraser LOGIN;
GRANT USAGE ON SCHEMA tickets TO ocrr_eraser;
GRANT SELECT ON tickets.about, tickets.entries TO ocrr_eraser;
GRANT INSERT, MAINTAIN ON tickets.entries TO ocrr_eraser;
GRANT UPDATE (salt, label, author, text, x, act) ON tickets.entries TO ocrr_eraser;

-- Nobody updates, removes or truncates entries otherwise; nobody else comes in.
REVOKE ALL ON SCHEMA tickets FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA tickets FROM PUBLIC;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
