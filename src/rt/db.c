// The memory of the pipeline: one SQLite file, one row a key, JSON and (where wanted) a shared object in it.
//
// SQLite with a write-ahead log, because several processes share the file and a crash must not lose or tear a row.
// A file that is not a database, or one that cannot be written, is reported and left as it is: what is in it may be
// another program's, or worth saving.
#include "rt/rt.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 5000, LAYOUT = 1 };

struct db {
  sqlite3 *sql;
  sqlite3_stmt *get, *put;
  char *path;
};

static const char schema[] = "CREATE TABLE IF NOT EXISTS best (key TEXT PRIMARY KEY, json TEXT NOT NULL, so BLOB,"
                             " made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID";

static int failed(struct db *db, const char *what, struct err *e)
{
  err_set(e, ERR_DATABASE, NOWHERE, "cannot %s the database %s: %s", what, db->path, sqlite3_errmsg(db->sql));
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
  if (sqlite3_exec(db->sql, schema, NULL, NULL, NULL) != SQLITE_OK ||
      sqlite3_exec(db->sql, "PRAGMA user_version = 1", NULL, NULL, NULL) != SQLITE_OK)
    return failed(db, "write", e);
  return OK;
}

static int prepare(struct db *db, struct err *e)
{
  if (sqlite3_open_v2(db->path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
    return failed(db, "open", e);
  sqlite3_busy_timeout(db->sql, PATIENCE_MS);
  if (sqlite3_exec(db->sql, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", NULL, NULL, NULL) != SQLITE_OK)
    return failed(db, "open", e);
  if (check_layout(db, e) != OK) return (int)e->status;
  if (sqlite3_prepare_v2(db->sql, "SELECT json, so FROM best WHERE key = ?1", -1, &db->get, NULL) != SQLITE_OK ||
      sqlite3_prepare_v2(db->sql, "INSERT OR REPLACE INTO best (key, json, so) VALUES (?1, ?2, ?3)", -1, &db->put, NULL) !=
          SQLITE_OK)
    return failed(db, "read", e);
  return OK;
}

// A file that was made and could not be filled: on a full disk nothing is better than an empty database.
static void remove_empty(const char *path)
{
  struct stat s;
  if (!stat(path, &s) && S_ISREG(s.st_mode) && !s.st_size) unlink(path);
}

int db_open(const char *path, struct db **out, struct err *e)
{
  struct str where = {0};
  if (path) str_add(&where, "%s", path);
  else default_path(&where);
  struct db *db = calloc(1, sizeof *db);
  CHECK(db);
  db->path = where.p;
  *out = NULL;
  bool there = !access(db->path, F_OK);
  if (make_folder(db->path, e) != OK || prepare(db, e) != OK) {
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
  sqlite3_finalize(db->get);
  sqlite3_finalize(db->put);
  sqlite3_close(db->sql);
  free(db->path);
  free(db);
}

int db_get(struct db *db, const char *key, struct arena *mem, char **json, void **so, size_t *so_bytes, struct err *e)
{
  sqlite3_bind_text(db->get, 1, key, -1, SQLITE_STATIC);
  int got = sqlite3_step(db->get), status = OK;
  if (got == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(db->get, 0);
    const void *blob = sqlite3_column_blob(db->get, 1);
    size_t n = (size_t)sqlite3_column_bytes(db->get, 1);
    *json = arena_strdup(mem, text ? text : "");
    if (so) *so = blob ? arena_copy(mem, blob, n) : NULL;
    if (so_bytes) *so_bytes = blob ? n : 0;
  } else {
    status = got == SQLITE_DONE ? NO : failed(db, "read", e);
  }
  sqlite3_reset(db->get);
  sqlite3_clear_bindings(db->get);
  return status;
}

int db_put(struct db *db, const char *key, const char *json, const void *so, size_t so_bytes, struct err *e)
{
  sqlite3_bind_text(db->put, 1, key, -1, SQLITE_STATIC);
  sqlite3_bind_text(db->put, 2, json, -1, SQLITE_STATIC);
  if (so) sqlite3_bind_blob64(db->put, 3, so, so_bytes, SQLITE_STATIC);
  int status = sqlite3_step(db->put) == SQLITE_DONE ? OK : failed(db, "write", e);
  sqlite3_reset(db->put);
  sqlite3_clear_bindings(db->put);
  return status;
}
