// The memory of the pipeline: one SQLite file, one row a key, JSON and (where wanted) a shared object in it. A second
// table has what a search that is under way has finished of its work; it goes when the search ends, or after a week.
//
// SQLite with a write-ahead log, because several processes share the file and a crash must not lose or tear a row.
// A file that is not a database, or one that cannot be written, is reported and left as it is: what is in it may be
// another program's, or worth saving.
#include "rt/rt.h"
#include "base/memory.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000, LAYOUT = 2, TRIES = 20, PAUSE_US = 50000 };
enum { GET, PUT, UNIT_GET, UNIT_PUT, UNIT_DROP, UNIT_OLD, STATEMENTS };

static const char *const statements[STATEMENTS] = {
    [GET] = "SELECT json, so FROM best WHERE key = ?1",
    [PUT] = "INSERT OR REPLACE INTO best (key, json, so) VALUES (?1, ?2, ?3)",
    [UNIT_GET] = "SELECT bytes FROM work WHERE search = ?1 AND unit = ?2",
    [UNIT_PUT] = "INSERT OR REPLACE INTO work (search, unit, bytes) VALUES (?1, ?2, ?3)",
    [UNIT_DROP] = "DELETE FROM work WHERE search = ?1",
    [UNIT_OLD] = "DELETE FROM work WHERE made < datetime('now', '-7 days')",
};

struct db {
  sqlite3 *sql;
  sqlite3_stmt *s[STATEMENTS];
  char *path;
};

static const char schema[] = "CREATE TABLE IF NOT EXISTS best (key TEXT PRIMARY KEY, json TEXT NOT NULL, so BLOB,"
                             " made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID;"
                             "CREATE TABLE IF NOT EXISTS work (search TEXT NOT NULL, unit INTEGER NOT NULL, bytes BLOB NOT NULL,"
                             " made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (search, unit));"
                             "PRAGMA user_version = 2";

static int failed(struct db *db, const char *what, struct err *e)
{
  const bool memory = sqlite3_errcode(db->sql) == SQLITE_NOMEM;
  err_set(e, memory ? ERR_MEMORY : ERR_DATABASE, NOWHERE, "cannot %s the database %s: %s", what, db->path, sqlite3_errmsg(db->sql));
  if (sqlite3_errcode(db->sql) == SQLITE_NOTADB || sqlite3_errcode(db->sql) == SQLITE_CORRUPT)
    err_hint(e, "the file is damaged or no database; move it away, or pass --no-db or --db FILE");
  return (int)e->status;
}

// $MICA_DB, else under $XDG_CACHE_HOME, else under $HOME.
static void default_path(struct str *s)
{
  const char *path = getenv("MICA_DB"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (path && *path) str_add(s, "%s", path);
  else if (cache && *cache) str_add(s, "%s/mica/mica.db", cache);
  else str_add(s, "%s/.cache/mica/mica.db", home && *home ? home : "/tmp");
}

static int make_folder(const char *path, struct err *e)
{
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path) return OK;
  struct str folder = {0};
  str_raw(&folder, path, (size_t)(slash - path));
  struct err inner = {0};
  int status = file_mkdirs(folder.p, &inner);
  if (status != OK) status = err_set(e, ERR_DATABASE, NOWHERE, "cannot open the database %s: %s", path, inner.text);
  str_free(&folder);
  return status;
}

// A database of a newer Mica is not touched.
static int check_layout(struct db *db, struct err *e)
{
  sqlite3_stmt *s;
  if (sqlite3_prepare_v2(db->sql, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK) return failed(db, "read", e);
  int layout = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int(s, 0) : -1;
  sqlite3_finalize(s);
  if (layout < 0) return failed(db, "read", e);
  if (layout > LAYOUT)
    return err_set(e, ERR_DATABASE, NOWHERE, "the database %s was written by a newer Mica (layout %d, this one knows %d)",
                   db->path, layout, LAYOUT);
  if (layout == LAYOUT) return OK;
  return sqlite3_exec(db->sql, schema, NULL, NULL, NULL) == SQLITE_OK ? OK : failed(db, "write", e);
}

static int prepare(struct db *db, struct err *e)
{
  if (sqlite3_open_v2(db->path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
    return failed(db, "open", e);
  sqlite3_busy_timeout(db->sql, PATIENCE_MS);
  if (sqlite3_exec(db->sql, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL, NULL) != SQLITE_OK)
    return failed(db, "open", e);
  if (check_layout(db, e) != OK) return (int)e->status;
  for (int i = 0; i < STATEMENTS; i++)
    if (sqlite3_prepare_v2(db->sql, statements[i], -1, &db->s[i], NULL) != SQLITE_OK) return failed(db, "read", e);
  return OK;
}

static void shut(struct db *db)
{
  for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(db->s[i]), db->s[i] = NULL;
  sqlite3_close(db->sql);
  db->sql = NULL;
}

// Others may be making the same file, or be the last to close it: what SQLite then says of its log passes.
static int prepare_with_patience(struct db *db, struct err *e)
{
  for (int tries = 1;; tries++) {
    if (prepare(db, e) == OK) return OK;
    int code = sqlite3_errcode(db->sql) & 0xff;
    bool passes = code == SQLITE_IOERR || code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_PROTOCOL;
    if (!passes || tries == TRIES) return (int)e->status;
    *e = (struct err){0};
    shut(db);
    usleep(PAUSE_US);
  }
}

// A file that was made and could not be filled: on a full disk nothing is better than an empty database.
static void remove_empty(const char *path)
{
  struct stat s;
  if (!stat(path, &s) && S_ISREG(s.st_mode) && !s.st_size) unlink(path);
}

static void drop(void *db) { db_close(db); }
static const struct mem_kind kind = {.close = drop};

int db_open(const char *path, struct db **out, struct err *e)
{
  struct str where = {0};
  if (path) str_add(&where, "%s", path);
  else default_path(&where);
  struct db *db = mem_handle(sizeof *db, &kind);
  db->path = where.p;
  *out = NULL;
  bool there = !access(db->path, F_OK);
  if (make_folder(db->path, e) != OK || prepare_with_patience(db, e) != OK) {
    if (!there) remove_empty(db->path);
    db_close(db);
    return (int)e->status;
  }
  *out = db;
  return OK;
}

void db_close(struct db *db)
{
  if (!db) return;
  shut(db);
  mem_free(db->path);
  mem_free(db);
}

// Ends a statement's run: `status`, or why it failed.
static int done(struct db *db, int which, int status)
{
  sqlite3_reset(db->s[which]);
  sqlite3_clear_bindings(db->s[which]);
  return status;
}

static int change(struct db *db, int which, struct err *e)
{
  return done(db, which, sqlite3_step(db->s[which]) == SQLITE_DONE ? OK : failed(db, "write", e));
}

int db_get(struct db *db, const char *key, struct arena *mem, char **json, void **so, size_t *so_bytes, struct err *e)
{
  sqlite3_stmt *s = db->s[GET];
  sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
  int got = sqlite3_step(s);
  if (got != SQLITE_ROW) return done(db, GET, got == SQLITE_DONE ? NO : failed(db, "read", e));
  const char *text = (const char *)sqlite3_column_text(s, 0);
  const void *blob = sqlite3_column_blob(s, 1);
  size_t n = (size_t)sqlite3_column_bytes(s, 1);
  *json = arena_strdup(mem, text ? text : "");
  if (so) *so = blob ? arena_copy(mem, blob, n) : NULL;
  if (so_bytes) *so_bytes = blob ? n : 0;
  return done(db, GET, OK);
}

int db_put(struct db *db, const char *key, const char *json, const void *so, size_t so_bytes, struct err *e)
{
  sqlite3_stmt *s = db->s[PUT];
  sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
  sqlite3_bind_text(s, 2, json, -1, SQLITE_STATIC);
  if (so) sqlite3_bind_blob64(s, 3, so, so_bytes, SQLITE_STATIC);
  return change(db, PUT, e);
}

int db_unit_get(struct db *db, const char *search, uint64_t unit, struct arena *mem, void **bytes, size_t *n, struct err *e)
{
  sqlite3_stmt *s = db->s[UNIT_GET];
  sqlite3_bind_text(s, 1, search, -1, SQLITE_STATIC);
  sqlite3_bind_int64(s, 2, (sqlite3_int64)unit);
  int got = sqlite3_step(s);
  if (got != SQLITE_ROW) return done(db, UNIT_GET, got == SQLITE_DONE ? NO : failed(db, "read", e));
  const void *blob = sqlite3_column_blob(s, 0);
  *n = (size_t)sqlite3_column_bytes(s, 0);
  *bytes = arena_copy(mem, blob ? blob : "", *n);
  return done(db, UNIT_GET, OK);
}

int db_unit_put(struct db *db, const char *search, uint64_t unit, const void *bytes, size_t n, struct err *e)
{
  sqlite3_stmt *s = db->s[UNIT_PUT];
  sqlite3_bind_text(s, 1, search, -1, SQLITE_STATIC);
  sqlite3_bind_int64(s, 2, (sqlite3_int64)unit);
  sqlite3_bind_blob64(s, 3, bytes, n, SQLITE_STATIC);
  return change(db, UNIT_PUT, e);
}

int db_units_drop(struct db *db, const char *search, struct err *e)
{
  sqlite3_bind_text(db->s[UNIT_DROP], 1, search, -1, SQLITE_STATIC);
  int status = change(db, UNIT_DROP, e);
  return status == OK ? change(db, UNIT_OLD, e) : status;
}
