"""Version 2: scopes, with the constraints of the SQLite file. Texts sort by their bytes, as they do there."""

from typing import Final

STATEMENTS: Final = (
    r"""CREATE TABLE carrel_aliases (
         name text COLLATE "C" CONSTRAINT carrel_alias_name PRIMARY KEY
           CHECK (length(name) BETWEEN 2 AND 64 AND name ~ '^[a-z][a-z0-9]*([-_][a-z0-9]+)*$'),
         scope_id text COLLATE "C" NOT NULL,
         created_at bigint NOT NULL,
         CONSTRAINT carrel_alias_of_scope UNIQUE (name, scope_id))""",
    """CREATE TABLE carrel_scopes (
         id text COLLATE "C" CONSTRAINT carrel_scope_id PRIMARY KEY CHECK (length(id) = 36),
         alias text COLLATE "C" NOT NULL,
         parent_id text COLLATE "C" REFERENCES carrel_scopes (id) DEFERRABLE INITIALLY IMMEDIATE
           CHECK (parent_id <> id),
         title text COLLATE "C" NOT NULL CHECK (length(title) BETWEEN 1 AND 200
           AND strpos(title, chr(10)) = 0 AND strpos(title, chr(13)) = 0),
         description text COLLATE "C" CHECK (length(description) BETWEEN 1 AND 1000),
         status text COLLATE "C" NOT NULL DEFAULT 'TODO'
           CHECK (status IN ('PLANNING', 'TODO', 'IN_PROGRESS', 'BLOCKED', 'DONE', 'ARCHIVED')),
         position bigint NOT NULL,
         created_at bigint NOT NULL,
         updated_at bigint NOT NULL CHECK (updated_at >= created_at),
         FOREIGN KEY (alias, id) REFERENCES carrel_aliases (name, scope_id)
           ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED)""",
    """ALTER TABLE carrel_aliases ADD FOREIGN KEY (scope_id) REFERENCES carrel_scopes (id)
         ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED""",
    "CREATE INDEX carrel_aliases_by_scope ON carrel_aliases (scope_id, name)",
    # Of two constraints that a statement breaks, the one that was created first is reported: the title, as in SQLite.
    "CREATE UNIQUE INDEX carrel_sibling_title ON carrel_scopes (coalesce(parent_id, ''), title)",
    "ALTER TABLE carrel_scopes ADD CONSTRAINT carrel_scope_alias UNIQUE (alias)",
    "CREATE INDEX carrel_scope_children ON carrel_scopes (parent_id, position, created_at, id, alias)",
    """CREATE FUNCTION carrel_check_scope() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
         IF OLD.status = 'ARCHIVED' AND NEW.status NOT IN ('ARCHIVED', 'TODO') THEN
           RAISE EXCEPTION 'archived' USING ERRCODE = 'check_violation';
         END IF;
         IF NEW.parent_id IS DISTINCT FROM OLD.parent_id AND NEW.id IN (
             WITH RECURSIVE up(id) AS (SELECT id FROM carrel_scopes WHERE id = NEW.parent_id UNION
               SELECT s.parent_id FROM carrel_scopes s JOIN up ON s.id = up.id WHERE s.parent_id IS NOT NULL)
             SELECT id FROM up) THEN
           RAISE EXCEPTION 'cycle' USING ERRCODE = 'check_violation';
         END IF;
         RETURN NEW;
       END $$""",
    """CREATE TRIGGER carrel_scope_update BEFORE UPDATE OF parent_id, status ON carrel_scopes
         FOR EACH ROW EXECUTE FUNCTION carrel_check_scope()""",
    """CREATE TABLE carrel_idempotency (
         tool text COLLATE "C" NOT NULL,
         key text COLLATE "C" NOT NULL,
         args_hash text NOT NULL,
         result text NOT NULL,
         created_at bigint NOT NULL,
         PRIMARY KEY (tool, key))""",
)
