// The memory of the pipeline: one SQLite file, one row a key, JSON and (where wanted) a shared object in it. A second
// table has what a search that is under way has finished of its work; it goes when the search ends, or after a week.
//
// SQLite, because several processes share the file and a crash must not lose or tear a row. A row has a checksum, by the user's key, of all
// that it holds and of what it is found under. One whose checksum is another is no row: it is not used, and the next of its key takes its place.
#include "rt/db.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int db_failed(struct db *db, const char *what, struct err *e)
{
  // A map that the system has no memory for is an error of input and output to SQLite.
  const bool memory = sqlite3_errcode(db->sql) == SQLITE_NOMEM || sqlite3_extended_errcode(db->sql) == SQLITE_IOERR_NOMEM ||
                      (sqlite3_errcode(db->sql) == SQLITE_IOERR && sqlite3_system_errno(db->sql) == ENOMEM);
  err_set(e, memory ? ERR_MEMORY : ERR_DATABASE, NOWHERE, "cannot %s the database %s: %s", what, db->path, sqlite3_errmsg(db->sql));
  if (sqlite3_errcode(db->sql) == SQLITE_NOTADB || sqlite3_errcode(db->sql) == SQLITE_CORRUPT)
    err_hint(e, "the file is damaged or no database; move it away, or pass --no-db or --db FILE");
  return (int)e->status;
}

static void drop(void *db) { db_close(db); }
static const struct mem_kind kind = {.close = drop};

static bool named(const char *path)
{
  const char *named = getenv("MICA_DB");
  return path || (named && *named);
}

bool db_default(char *out, size_t n)
{
  char folder[OWN_PATH];
  if (named(NULL)) return snprintf(out, n, "%s", getenv("MICA_DB")) < (int)n;
  return cache_folder(folder) && snprintf(out, n, "%s/mica.db", folder) < (int)n;
}

int db_open_until(const char *path, const struct patience *p, struct db **out, struct err *e)
{
  char where[OWN_PATH];
  *out = NULL;
  if (!path && !db_default(where, sizeof where) && named(NULL))
    return err_set(e, ERR_DATABASE, NOWHERE, "MICA_DB is longer than a path can be: %zu bytes, at most %d", strlen(getenv("MICA_DB")), OWN_PATH - 1);
  if (!path && !db_default(where, sizeof where)) {
    err_set(e, ERR_DATABASE, NOWHERE, "there is no default database, as neither XDG_CACHE_HOME nor HOME names a folder");
    return err_hint(e, "set HOME, or pass --db FILE"), (int)e->status;
  }
  struct db *db = mem_handle(sizeof *db, &kind);
  struct str text = {0};
  str_add(&text, "%s", path ? path : where);
  db->path = text.p;
  if (p) db->patience = *p;
  if (db_prepare(db, e) != OK) return db_close(db), (int)e->status;
  *out = db;
  return OK;
}

int db_open(const char *path, struct db **out, struct err *e) { return db_open_until(path, NULL, out, e); }

int db_open_or_none(const char *path, const struct patience *p, struct db **out, struct err *why, struct err *e)
{
  const bool asked = named(path);
  const int status = db_open_until(path, p, out, asked ? e : why);
  if (asked || status == OK) return status;
  return why->id == ERR_MEMORY ? *e = *why, status : OK;
}

const char *db_note(const struct db *db) { return db->note; }

void db_close(struct db *db)
{
  if (!db) return;
  db_shut(db);
  mem_free(db->path);
  mem_free(db);
}

// ---- checksums ----

struct db_piece { // of a row
  const void *p;  // NULL: there is none
  size_t n;
};

static struct db_piece text_piece(const char *s) { return (struct db_piece){s, strlen(s)}; }

static struct db_piece column(sqlite3_stmt *s, int i)
{
  const void *p = sqlite3_column_blob(s, i);
  return (struct db_piece){p ? p : sqlite3_column_type(s, i) == SQLITE_NULL ? NULL : "", (size_t)sqlite3_column_bytes(s, i)};
}

static void sum_of(const struct db *db, int n, const struct db_piece *p, uint8_t out[SHA256])
{
  struct sha256 s;
  hmac_open(&s, db->key);
  for (int i = 0; i < n; i++) {
    const bool there = p[i].p;
    hmac_add(&s, &there, sizeof there), hmac_add(&s, p[i].p, there ? p[i].n : 0);
  }
  hmac_close(&s, db->key, out);
}

static bool fits(struct db *db, int n, const struct db_piece *p, struct db_piece sum)
{
  uint8_t mine[SHA256];
  sum_of(db, n, p, mine);
  if (sum.n == SHA256 && !memcmp(sum.p, mine, SHA256)) return true;
  snprintf(db->note, sizeof db->note, "a row of the database %.200s was changed, or made by another user; it was not used", db->path);
  return false;
}

bool db_signed(const struct db *db, const struct db_row *r)
{
  uint8_t mine[SHA256];
  sum_of(db, 4, (struct db_piece[]){text_piece("best"), text_piece(r->key), text_piece(r->json), {NULL, 0}}, mine);
  return !memcmp(mine, r->sum, SHA256);
}

// ---- rows ----

// Ends a statement's run: `status`, or why it failed.
static int done(struct db *db, int which, int status)
{
  sqlite3_reset(db->s[which]);
  sqlite3_clear_bindings(db->s[which]);
  return status;
}

static int change(struct db *db, int which, struct err *e)
{
  return done(db, which, sqlite3_step(db->s[which]) == SQLITE_DONE ? OK : db_failed(db, "write", e));
}

int db_get(struct db *db, const char *key, struct arena *mem, char **json, void **so, size_t *so_bytes, struct err *e)
{
  sqlite3_stmt *s = db->s[DB_GET];
  sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
  int got = sqlite3_step(s);
  if (got != SQLITE_ROW) return done(db, DB_GET, got == SQLITE_DONE ? NO : db_failed(db, "read", e));
  if (!fits(db, 4, (struct db_piece[]){text_piece("best"), text_piece(key), column(s, 0), column(s, 1)}, column(s, 2))) return done(db, DB_GET, NO);
  const char *text = (const char *)sqlite3_column_text(s, 0);
  const void *blob = sqlite3_column_blob(s, 1);
  size_t n = (size_t)sqlite3_column_bytes(s, 1);
  *json = arena_strdup(mem, text ? text : "");
  if (so) *so = blob ? arena_copy(mem, blob, n) : NULL;
  if (so_bytes) *so_bytes = blob ? n : 0;
  return done(db, DB_GET, OK);
}

int db_put(struct db *db, const char *key, const char *json, const void *so, size_t so_bytes, struct err *e)
{
  sqlite3_stmt *s = db->s[DB_PUT];
  sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
  sqlite3_bind_text(s, 2, json, -1, SQLITE_STATIC);
  if (so) sqlite3_bind_blob64(s, 3, so, so_bytes, SQLITE_STATIC);
  uint8_t sum[SHA256];
  sum_of(db, 4, (struct db_piece[]){text_piece("best"), text_piece(key), text_piece(json), {so, so_bytes}}, sum);
  sqlite3_bind_blob(s, 4, sum, sizeof sum, SQLITE_STATIC);
  return change(db, DB_PUT, e);
}

int db_unit_get(struct db *db, const char *search, uint64_t unit, struct arena *mem, void **bytes, size_t *n, struct err *e)
{
  sqlite3_stmt *s = db->s[DB_UNIT_GET];
  sqlite3_bind_text(s, 1, search, -1, SQLITE_STATIC);
  sqlite3_bind_int64(s, 2, (sqlite3_int64)unit);
  int got = sqlite3_step(s);
  if (got != SQLITE_ROW) return done(db, DB_UNIT_GET, got == SQLITE_DONE ? NO : db_failed(db, "read", e));
  if (!fits(db, 4, (struct db_piece[]){text_piece("work"), text_piece(search), {&unit, sizeof unit}, column(s, 0)}, column(s, 1)))
    return done(db, DB_UNIT_GET, NO);
  const void *blob = sqlite3_column_blob(s, 0);
  *n = (size_t)sqlite3_column_bytes(s, 0);
  *bytes = arena_copy(mem, blob ? blob : "", *n);
  return done(db, DB_UNIT_GET, OK);
}

int db_unit_put(struct db *db, const char *search, uint64_t unit, const void *bytes, size_t n, struct err *e)
{
  sqlite3_stmt *s = db->s[DB_UNIT_PUT];
  sqlite3_bind_text(s, 1, search, -1, SQLITE_STATIC);
  sqlite3_bind_int64(s, 2, (sqlite3_int64)unit);
  sqlite3_bind_blob64(s, 3, bytes, n, SQLITE_STATIC);
  uint8_t sum[SHA256];
  sum_of(db, 4, (struct db_piece[]){text_piece("work"), text_piece(search), {&unit, sizeof unit}, {bytes, n}}, sum);
  sqlite3_bind_blob(s, 4, sum, sizeof sum, SQLITE_STATIC);
  return change(db, DB_UNIT_PUT, e);
}

int db_units_drop(struct db *db, const char *search, struct err *e)
{
  sqlite3_bind_text(db->s[DB_UNIT_DROP], 1, search, -1, SQLITE_STATIC);
  int status = change(db, DB_UNIT_DROP, e);
  return status == OK ? change(db, DB_UNIT_OLD, e) : status;
}
