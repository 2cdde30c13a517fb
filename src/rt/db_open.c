// Opens the database. The file and its folder must belong to this user, and no other user may be able to write to them (own.h). An existing file is
// first inspected without writing to it. A file that Mica did not make is left unchanged. A new file appears complete (own_create).
#include "rt/db.h"
#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { TRIES = 20, PAUSE_US = 50000, NAP_US = 10000 };
static const double LONGEST = 5;                                                // seconds of one wait for another process
enum { APPLICATION = 0x6d696361, LAYOUT = 3, UNSIGNED = 2, MOST_WORDS = 1000 }; // "mica"; the layouts up to UNSIGNED had neither that nor checksums

static const char *const statements[DB_STATEMENTS] = {
    [DB_GET] = "SELECT json, so, sum FROM best WHERE key = ?1",
    [DB_PUT] = "INSERT OR REPLACE INTO best (key, json, so, sum) VALUES (?1, ?2, ?3, ?4)",
    [DB_UNIT_GET] = "SELECT bytes, sum FROM work WHERE search = ?1 AND unit = ?2",
    [DB_UNIT_PUT] = "INSERT OR REPLACE INTO work (search, unit, bytes, sum) VALUES (?1, ?2, ?3, ?4)",
    [DB_UNIT_DROP] = "DELETE FROM work WHERE search = ?1",
    [DB_UNIT_OLD] = "DELETE FROM work WHERE made < datetime('now', '-7 days')",
};
#define BEST "TABLE best (key TEXT PRIMARY KEY, json TEXT NOT NULL, so BLOB, made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP"
#define WORK "TABLE work (search TEXT NOT NULL, unit INTEGER NOT NULL, bytes BLOB NOT NULL, made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP"
static const struct {
  const char *best, *work;
} layouts[] = {{"CREATE " BEST ", sum BLOB NOT NULL) WITHOUT ROWID", "CREATE " WORK ", sum BLOB NOT NULL, UNIQUE (search, unit))"},
               {"CREATE " BEST ") WITHOUT ROWID", "CREATE " WORK ", UNIQUE (search, unit))"}}; // now, and up to UNSIGNED

static int not_ours(const struct db *db, const char *why, struct err *e)
{
  err_set(e, ERR_DATABASE, NOWHERE, "cannot open the database %s: %s", db->path, why);
  return err_hint(e, "Mica has not made this file, and leaves it as it is; pass another one by --db FILE, or --no-db"), (int)e->status;
}

static int because(const struct db *db, const struct err *why, struct err *e)
{
  err_set(e, why->id == ERR_FILE ? ERR_DATABASE : why->id, NOWHERE, "cannot open the database %s: %s", db->path, why->text);
  if (*why->hint && why->id != ERR_FILE) err_hint(e, "%s", why->hint);
  return (int)e->status;
}

static int run(struct db *db, const char *sql, const char *what, struct err *e)
{
  return sqlite3_exec(db->sql, sql, NULL, NULL, NULL) == SQLITE_OK ? OK : db_failed(db, what, e);
}

// ---- whose it is ----

// Files that SQLite keeps with the database are believed as much as itself.
static int check_files(const struct own_place *p, off_t *size, bool *there, struct err *e)
{
  static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
  char name[300], path[OWN_PATH + 300];
  for (size_t i = 0; i < COUNT(ends); i++) {
    off_t n;
    snprintf(name, sizeof name, "%s%s", p->name, ends[i]);
    snprintf(path, sizeof path, "%s/%s", p->path, name);
    const int status = own_file(p->folder, name, path, 0, &n, e);
    if (status != OK && status != NO) return status;
    if (!i) *there = status == OK, *size = n;
  }
  return OK;
}

// ---- what it is ----

// Spaces that were written differently are the same.
static bool same_words(const char *a, const char *b)
{
  for (;; a++, b++) {
    while (*a == ' ' || *a == '\n') a++;
    while (*b == ' ' || *b == '\n') b++;
    if (*a != *b || !*a) return *a == *b;
  }
}

static int number(struct db *db, const char *pragma, int *out, struct err *e)
{
  sqlite3_stmt *s;
  if (sqlite3_prepare_v2(db->sql, pragma, -1, &s, NULL) != SQLITE_OK) return db_failed(db, "open", e);
  const int status = sqlite3_step(s) == SQLITE_ROW ? OK : db_failed(db, "open", e);
  if (status == OK) *out = sqlite3_column_int(s, 0);
  return sqlite3_finalize(s), status;
}

// The tables are those of the layout and there are no others; the first layout had no `work`.
static int is_layout(struct db *db, size_t which, struct err *e)
{
  sqlite3_stmt *s;
  int best = 0, work = 0, others = 0, step;
  if (sqlite3_prepare_v2(db->sql, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL", -1, &s, NULL) != SQLITE_OK) return db_failed(db, "open", e);
  while ((step = sqlite3_step(s)) == SQLITE_ROW) {
    const char *text = (const char *)sqlite3_column_text(s, 0);
    if (text && same_words(text, layouts[which].best))
      best++;
    else if (text && same_words(text, layouts[which].work))
      work++;
    else
      others++;
  }
  const int status = step == SQLITE_DONE ? OK : db_failed(db, "open", e);
  sqlite3_finalize(s);
  return status != OK ? status : best == 1 && work <= 1 && !others ? OK : not_ours(db, "it is a database of another program", e);
}

static int check_schema(struct db *db, struct err *e)
{
  int application, layout;
  TRY(number(db, "PRAGMA application_id", &application, e));
  TRY(number(db, "PRAGMA user_version", &layout, e));
  if (application == APPLICATION && layout > LAYOUT)
    return err_set(e, ERR_DATABASE, NOWHERE, "the database %s was written by a newer Mica (layout %d, this one knows %d)", db->path, layout, LAYOUT);
  if (application == APPLICATION ? layout == LAYOUT : !application && layout >= 1 && layout <= UNSIGNED) return is_layout(db, application ? 0 : 1, e);
  return not_ours(db, "it is a database of another program", e);
}

// As a URI says it.
static void escaped(const char *path, struct str *out)
{
  for (; *path; path++)
    if (strchr("?#%", *path))
      str_add(out, "%%%02X", (unsigned)*path);
    else
      str_raw(out, path, 1);
}

// Is the number of Mica's databases in the header? SQLite's descriptor is read: to close another one ends this process's locks of the file.
static bool marked(const struct db *db)
{
  sqlite3_file *f = NULL;
  unsigned char header[100];
  if (sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f || !f->pMethods) return false;
  return f->pMethods->xRead(f, header, sizeof header, 0) == SQLITE_OK && !memcmp(header, "SQLite format 3", 16) &&
         !memcmp(header + 68, (const unsigned char[]){APPLICATION >> 24, APPLICATION >> 16 & 255, APPLICATION >> 8 & 255, APPLICATION & 255}, 4);
}

// Read as a file that never changes: nothing is locked, nothing recovered, no file made beside it. Pages may be of two states: another process
// copies its log into the file, or was killed while it did. So nothing but the header is believed of a file of Mica's; use() looks at its tables.
static int identify(struct db *db, const char *path, struct err *e)
{
  struct str uri = {0};
  str_add(&uri, "file:");
  escaped(path, &uri);
  str_add(&uri, "?immutable=1");
  const int opened = sqlite3_open_v2(uri.p, &db->sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
  str_free(&uri);
  const int status = opened != SQLITE_OK ? db_failed(db, "open", e) : marked(db) ? OK : check_schema(db, e);
  db_shut(db);
  return status;
}

// ---- making it ----

static int make_tables(struct db *db, struct err *e)
{
  char sql[MOST_WORDS];
  snprintf(sql, sizeof sql, "DROP TABLE IF EXISTS best; DROP TABLE IF EXISTS work; %s; %s; PRAGMA application_id = %d; PRAGMA user_version = %d",
           layouts[0].best, layouts[0].work, APPLICATION, LAYOUT);
  return run(db, sql, "write", e);
}

static int image(struct db *db, unsigned char **bytes, sqlite3_int64 *n, struct err *e)
{
  int status = sqlite3_open_v2(":memory:", &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK ? make_tables(db, e)
                                                                                                                    : db_failed(db, "make", e);
  *bytes = status == OK ? sqlite3_serialize(db->sql, "main", n, 0) : NULL;
  if (status == OK && !*bytes) status = err_set(e, ERR_MEMORY, NOWHERE, "no memory for the database %s", db->path);
  db_shut(db);
  return status;
}

static int make(struct db *db, const struct own_place *p, struct err *e)
{
  unsigned char *bytes;
  sqlite3_int64 n;
  int status = image(db, &bytes, &n, e);
  if (status != OK) return status;
  status = own_create(p->folder, p->name, bytes, (size_t)n, e);
  sqlite3_free(bytes);
  return status == NO ? OK : status;
}

// ---- opening it ----

static const char *network(int folder)
{
  struct statfs s;
  if (fstatfs(folder, &s)) return NULL;
  switch ((unsigned long)s.f_type & 0xffffffff) {
#define NETWORK(number, name) \
  case number:                \
    return name;
#include "rt/networks.def"
#undef NETWORK
  default: return NULL;
  }
}

// Sets the journal mode. Network file systems cannot share the memory that a write-ahead log needs, so they get a rollback journal. Leaving WAL mode
// needs exclusive access.
static int set_journal(struct db *db, int folder, struct err *e)
{
  if (network(folder))
    return run(db,
               "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE; PRAGMA locking_mode = NORMAL; PRAGMA synchronous = FULL;"
               "SELECT count(*) FROM sqlite_master",
               "open", e);
  return run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", "open", e);
}

// Another process may be doing the same. A database without checksums is of no use.
static int bring_up(struct db *db, struct err *e)
{
  int layout;
  TRY(number(db, "PRAGMA user_version", &layout, e));
  if (layout == LAYOUT) return OK;
  TRY(run(db, "BEGIN IMMEDIATE", "write", e));
  int status = number(db, "PRAGMA user_version", &layout, e);
  if (status == OK && layout != LAYOUT) status = make_tables(db, e);
  if (status == OK) status = run(db, "COMMIT", "write", e);
  if (status != OK) sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
  return status;
}

// SQLite asks again and again while another process has the file locked, with 0 when a wait begins.
static int keep_waiting(void *arg, int asked)
{
  struct db *db = arg;
  if (!asked) db->waiting = now_seconds();
  if (patience_over(&db->patience) || now_seconds() >= db->waiting + LONGEST) return 0;
  return usleep(NAP_US), 1;
}

static int use(struct db *db, const struct own_place *p, const char *path, bool empty, struct err *e)
{
  if (sqlite3_open_v2(path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, NULL) != SQLITE_OK) return db_failed(db, "open", e);
  sqlite3_busy_handler(db->sql, keep_waiting, db);
  if (!empty) TRY(check_schema(db, e));
  TRY(bring_up(db, e));
  TRY(set_journal(db, p->folder, e));
  for (int i = 0; i < DB_STATEMENTS; i++)
    if (sqlite3_prepare_v2(db->sql, statements[i], -1, &db->s[i], NULL) != SQLITE_OK) return db_failed(db, "read", e);
  return OK;
}

void db_shut(struct db *db)
{
  for (int i = 0; i < DB_STATEMENTS; i++) sqlite3_finalize(db->s[i]), db->s[i] = NULL;
  sqlite3_close(db->sql);
  db->sql = NULL;
}

// Others may be the last to close it: what SQLite then says of its log passes.
static int use_with_patience(struct db *db, const struct own_place *p, const char *path, bool empty, struct err *e)
{
  for (int tries = 1;; tries++) {
    if (use(db, p, path, empty, e) == OK) return OK;
    const int code = sqlite3_errcode(db->sql) & 0xff;
    const bool passes = code == SQLITE_IOERR || code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_PROTOCOL;
    if (!passes || tries == TRIES || patience_over(&db->patience)) return (int)e->status;
    *e = (struct err){0};
    db_shut(db);
    usleep(PAUSE_US);
  }
}

static int prepare_in(struct db *db, const struct own_place *p, struct err *e)
{
  char path[OWN_PATH + 300];
  struct err why = {0};
  off_t size = 0;
  bool there;
  snprintf(path, sizeof path, "%s/%s", p->path, p->name);
  if (check_files(p, &size, &there, &why) != OK || key_open(p, db->key, &why) != OK) return because(db, &why, e);
  if (!there && make(db, p, &why) != OK) return because(db, &why, e);
  if (there && size) TRY(identify(db, path, e));
  return use_with_patience(db, p, path, there && !size, e);
}

static void close_place(void *p)
{
  const struct own_place *place = p;
  if (place->folder >= 0) close(place->folder);
}

int db_prepare(struct db *db, struct err *e)
{
  struct own_place p = {.folder = -1};
  struct undo undo;
  struct err why = {0};
  if (own_place(db->path, true, &p, &why) != OK) return because(db, &why, e);
  undo_push(&undo, close_place, &p);
  const int status = prepare_in(db, &p, e);
  undo_pop(&undo);
  return close_place(&p), status;
}
