// The database: entries are read as written. Files that are damaged or not writable, or belong to another program or user, are reported and not changed.
// Modified entries are not used. The linker replaces fstatfs by a function of this file, to simulate other file systems.
#include "folder.h"
#include "rt/db.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

static char *path_in(struct arena *mem, const char *name) { return arena_printf(mem, "%s/%s", folder, name); }

static void put_and_get(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  char *path = path_in(&mem, "deep/er/mica.db"), *json;
  void *so;
  size_t n;
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, &so, &n, &e), NO);
  assert_int_equal(db_put(db, "k", "{\"a\": 1}", "\0\1\2", 3, &e), OK);
  assert_int_equal(db_put(db, "other", "{}", NULL, 0, &e), OK);
  db_close(db);
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, &so, &n, &e), OK);
  assert_string_equal(json, "{\"a\": 1}");
  assert_int_equal(n, 3);
  assert_memory_equal(so, "\0\1\2", 3);
  assert_int_equal(db_put(db, "k", "{\"a\": 2}", NULL, 0, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, &so, &n, &e), OK);
  assert_string_equal(json, "{\"a\": 2}");
  assert_null(so);
  db_close(db);
  arena_close(&mem);
}

static void two_at_once(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *a, *b;
  char *path = path_in(&mem, "shared.db"), *json;
  assert_int_equal(db_open(path, &a, &e), OK);
  assert_int_equal(db_open(path, &b, &e), OK);
  assert_int_equal(db_put(a, "k", "1", NULL, 0, &e), OK);
  assert_int_equal(db_put(b, "k", "2", NULL, 0, &e), OK);
  assert_int_equal(db_get(a, "k", &mem, &json, NULL, NULL, &e), OK);
  assert_string_equal(json, "2");
  db_close(a);
  db_close(b);
  arena_close(&mem);
}

static void units(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  void *bytes;
  size_t n;
  assert_int_equal(db_open(path_in(&mem, "units.db"), &db, &e), OK);
  assert_int_equal(db_unit_get(db, "a", 7, &mem, &bytes, &n, &e), NO);
  assert_int_equal(db_unit_put(db, "a", 7, "x\0y", 3, &e), OK);
  assert_int_equal(db_unit_put(db, "a", (uint64_t)3 << 32, "", 0, &e), OK);
  assert_int_equal(db_unit_put(db, "b", 7, "z", 1, &e), OK);
  assert_int_equal(db_unit_get(db, "a", 7, &mem, &bytes, &n, &e), OK);
  assert_int_equal(n, 3);
  assert_memory_equal(bytes, "x\0y", 3);
  assert_int_equal(db_unit_get(db, "a", (uint64_t)3 << 32, &mem, &bytes, &n, &e), OK);
  assert_int_equal(n, 0);
  assert_int_equal(db_unit_put(db, "a", 7, "new", 3, &e), OK);
  assert_int_equal(db_units_drop(db, "b", &e), OK);
  assert_int_equal(db_unit_get(db, "b", 7, &mem, &bytes, &n, &e), NO);
  assert_int_equal(db_unit_get(db, "a", 7, &mem, &bytes, &n, &e), OK);
  assert_memory_equal(bytes, "new", 3);
  db_close(db);
  arena_close(&mem);
}

static void sql(const char *path, const char *text)
{
  sqlite3 *s;
  assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
  if (sqlite3_exec(s, text, NULL, NULL, NULL) != SQLITE_OK) fail_msg("%s: %s", text, sqlite3_errmsg(s));
  sqlite3_close(s);
}

static const char before[] = "CREATE TABLE best (key TEXT PRIMARY KEY, json TEXT NOT NULL, so BLOB, made TEXT NOT NULL DEFAULT"
                             " CURRENT_TIMESTAMP) WITHOUT ROWID; INSERT INTO best (key, json) VALUES ('k', '[1]');"
                             " PRAGMA user_version = 1";

// A database of the layouts before has no checksums, so that what it has is not used. One of a later layout is left alone.
static void layouts(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  char *path = path_in(&mem, "old.db"), *json;
  sql(path, before);
  chmod(path, 0600);
  if (db_open(path, &db, &e)) fail_msg("%s", e.text);
  assert_int_equal(db_get(db, "k", &mem, &json, NULL, NULL, &e), NO);
  assert_int_equal(db_put(db, "k", "[2]", NULL, 0, &e), OK);
  assert_int_equal(db_unit_put(db, "a", 1, "x", 1, &e), OK);
  db_close(db);
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, NULL, NULL, &e), OK);
  db_close(db);
  sql(path, "PRAGMA user_version = 4");
  assert_int_equal(db_open(path, &db, &e), ENV);
  assert_non_null(strstr(e.text, "newer"));
  arena_close(&mem);
}

// ---- databases of others ----

static const struct {
  const char *name, *made;
} foreign[] = {
    {"tables", "CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('Ada')"},
    {"no tables", "PRAGMA user_version = 7"},
    {"log", "PRAGMA journal_mode = WAL; CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('Ada')"},
    {"negative", "PRAGMA application_id = -7; CREATE TABLE people (name TEXT)"},
    {"number", "PRAGMA application_id = 7; CREATE TABLE best (key TEXT PRIMARY KEY, json TEXT NOT NULL, so BLOB, made TEXT NOT NULL"
               " DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID; PRAGMA user_version = 2"},
    {"ours and more", "CREATE TABLE best (key TEXT PRIMARY KEY, json TEXT NOT NULL, so BLOB, made TEXT NOT NULL"
                      " DEFAULT CURRENT_TIMESTAMP) WITHOUT ROWID; CREATE TABLE people (name TEXT); PRAGMA user_version = 2"},
    {"our number", "PRAGMA application_id = 1835623265; PRAGMA user_version = 3; CREATE TABLE people (name TEXT)"},
};

static void foreign_files(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(foreign); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct db *db;
    size_t n, m;
    char *path = arena_printf(&mem, "%s/foreign 1%%3f?#%zu.db", folder, i), *was, *is;
    sql(path, foreign[i].made);
    chmod(path, 0600);
    assert_int_equal(file_read(&mem, path, &was, &n, &e), OK);
    if (db_open(path, &db, &e) != ENV || !strstr(e.text, "another program")) fail_msg("%s: %s", foreign[i].name, e.text);
    assert_null(db);
    e = (struct err){0};
    assert_int_equal(file_read(&mem, path, &is, &m, &e), OK);
    assert_int_equal(n, m);
    assert_memory_equal(was, is, n);
    static const char *const ends[] = {"-wal", "-shm", "-journal"};
    for (size_t k = 0; k < COUNT(ends); k++) assert_int_equal(access(arena_printf(&mem, "%s%s", path, ends[k]), F_OK), -1);
    arena_close(&mem);
  }
}

// ---- rows that were changed ----

static const char *const tampered[] = {
    "UPDATE best SET json = '{\"a\": 2}' WHERE key = 'k'",
    "UPDATE best SET so = x'00' WHERE key = 'k'",
    "UPDATE best SET so = NULL WHERE key = 'k'",
    "UPDATE best SET sum = x'00' WHERE key = 'k'",
    "UPDATE best SET sum = zeroblob(32) WHERE key = 'k'",
    ("UPDATE best SET json = (SELECT json FROM best WHERE key = 'other'), so = (SELECT so FROM best WHERE key = 'other'),"
     " sum = (SELECT sum FROM best WHERE key = 'other') WHERE key = 'k'"),
    "UPDATE work SET bytes = x'01' WHERE search = 's'",
    "UPDATE work SET unit = 7 WHERE search = 's' AND unit = 3",
    "UPDATE work SET search = 't' WHERE search = 's'; UPDATE work SET search = 's' WHERE search = 'u'",
};

static void changed_rows(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(tampered); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct db *db;
    char *path = path_in(&mem, arena_printf(&mem, "changed%zu.db", i)), *json;
    void *so, *bytes;
    size_t n;
    assert_int_equal(db_open(path, &db, &e), OK);
    assert_int_equal(db_put(db, "k", "{\"a\": 1}", "xyz", 3, &e), OK);
    assert_int_equal(db_put(db, "other", "{}", "xyz", 3, &e), OK);
    assert_int_equal(db_unit_put(db, "s", 3, "y", 1, &e), OK);
    assert_int_equal(db_unit_put(db, "u", 7, "y", 1, &e), OK);
    db_close(db);
    sql(path, tampered[i]);
    assert_int_equal(db_open(path, &db, &e), OK);
    assert_string_equal(db_note(db), "");
    const int best = db_get(db, "k", &mem, &json, &so, &n, &e), work = db_unit_get(db, "s", 3, &mem, &bytes, &n, &e);
    const int moved = db_unit_get(db, "s", 7, &mem, &bytes, &n, &e);
    if ((best == OK && work == OK) || moved == OK) fail_msg("%s: used", tampered[i]);
    assert_non_null(strstr(db_note(db), "was changed"));
    assert_int_equal(db_put(db, "k", "new", NULL, 0, &e), OK);
    assert_int_equal(db_get(db, "k", &mem, &json, NULL, NULL, &e), OK);
    db_close(db);
    arena_close(&mem);
  }
}

// Entries of another user's Mica are not used, wherever the file came from.
static void another_key(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  char *path = path_in(&mem, "theirs.db"), *json, *home = path_in(&mem, "another home");
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_put(db, "k", "{}", NULL, 0, &e), OK);
  db_close(db);
  const char *was = arena_strdup(&mem, getenv("HOME"));
  setenv("HOME", home, 1);
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, NULL, NULL, &e), NO);
  db_close(db);
  setenv("HOME", was, 1);
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, NULL, NULL, &e), OK);
  db_close(db);
  arena_close(&mem);
}

// ---- whose files they are ----

static mode_t mode_of(const char *path)
{
  struct stat s;
  assert_int_equal(stat(path, &s), 0);
  return s.st_mode & 07777;
}

static void refused(const char *path, const char *why)
{
  struct err e = {0};
  struct db *db;
  if (db_open(path, &db, &e) != ENV || e.id != ERR_UNTRUSTED || !strstr(e.text, why)) fail_msg("%s: %d, %s", path, e.status, e.text);
}

static void opens(const char *path)
{
  struct err e = {0};
  struct db *db;
  if (db_open(path, &db, &e) != OK) fail_msg("%s: %s", path, e.text);
  db_close(db);
}

static void modes(void **state)
{
  (void)state;
  struct arena mem = {0};
  char *path = path_in(&mem, "mine/all/mica.db"), *mine = path_in(&mem, "mine/all"), *above = path_in(&mem, "mine");
  const mode_t was = umask(0);
  struct err e = {0};
  struct db *db;
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_put(db, "k", "{}", NULL, 0, &e), OK);
  assert_int_equal(mode_of(path_in(&mem, "mine/all/mica.db-wal")), 0600);
  assert_int_equal(mode_of(path_in(&mem, "mine/all/mica.db-shm")), 0600);
  db_close(db);
  umask(0777);
  opens(path_in(&mem, "mine/masked/mica.db"));
  umask(was);
  assert_int_equal(mode_of(path_in(&mem, "mine/masked/mica.db")), 0600);
  assert_int_equal(mode_of(path_in(&mem, "mine/masked")), 0700);
  assert_int_equal(mode_of(path), 0600);
  assert_int_equal(mode_of(mine), 0700);
  assert_int_equal(mode_of(above), 0700);
  chmod(path, 0622), refused(path, "other users");
  chmod(path, 0644), opens(path);
  chmod(mine, 0702), refused(path, "other users");
  chmod(mine, 01777), refused(path, "other users");
  chmod(mine, 0755), opens(path);
  chmod(above, 0777), refused(path, "other users");
  chmod(above, 01777), opens(path);
  refused(path_in(&mem, "mine/x.db"), "other users");
  arena_close(&mem);
}

// Files of another user: only root can make these.
static void of_others(void **state)
{
  (void)state;
  struct arena mem = {0};
  char *path = path_in(&mem, "theirs/mica.db"), *at = path_in(&mem, "theirs"), *link = path_in(&mem, "link"), *file = path_in(&mem, "link.db");
  if (geteuid()) skip();
  opens(path);
  assert_int_equal(chown(path, 65534, 65534), 0), refused(path, "belongs to user 65534");
  assert_int_equal(chown(path, 0, 0), 0), opens(path);
  assert_int_equal(chown(at, 65534, 65534), 0), refused(path, "belongs to user 65534");
  assert_int_equal(chown(at, 0, 0), 0);
  assert_int_equal(symlink(at, link), 0);
  opens(path_in(&mem, "link/mica.db"));
  assert_int_equal(lchown(link, 65534, 65534), 0), refused(path_in(&mem, "link/mica.db"), "belongs to user 65534");
  assert_int_equal(symlink("theirs/mica.db", file), 0);
  opens(file);
  assert_int_equal(lchown(file, 65534, 65534), 0), refused(file, "belongs to user 65534");
  assert_int_equal(file_write(arena_printf(&mem, "%s-wal", path), "", 0, &(struct err){0}), OK);
  assert_int_equal(chown(arena_printf(&mem, "%s-wal", path), 65534, 65534), 0), refused(path, "mica.db-wal");
  arena_close(&mem);
}

static void the_key(void **state)
{
  (void)state;
  struct arena mem = {0};
  char *key = path_in(&mem, "home/.cache/mica/key"), *path = path_in(&mem, "key.db"), *at;
  opens(path);
  assert_int_equal(mode_of(key), 0600);
  chmod(key, 0640), refused(path, "secret");
  chmod(key, 0600), opens(path);
  assert_int_equal(truncate(key, 31), 0), refused(path, "32 bytes");
  assert_int_equal(unlink(key), 0), opens(path);
  const char *was = arena_strdup(&mem, getenv("HOME"));
  unsetenv("HOME"); // then the key is with the database
  at = path_in(&mem, "key.db.key");
  assert_int_equal(access(at, F_OK), -1);
  opens(path);
  assert_int_equal(mode_of(at), 0600);
  setenv("HOME", was, 1);
  arena_close(&mem);
}

static void without_a_home(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0}, why = {0};
  struct db *db;
  const char *was = arena_strdup(&mem, getenv("HOME"));
  char text[4096];
  unsetenv("MICA_DB"), unsetenv("HOME");
  assert_false(db_default(text, sizeof text));
  assert_int_equal(db_open_or_none(NULL, NULL, &db, &why, &e), OK);
  assert_null(db);
  assert_non_null(strstr(why.text, "there is no default database"));
  why = (struct err){0};
  setenv("HOME", "relative", 1);
  assert_false(db_default(text, sizeof text));
  setenv("HOME", was, 1);
  chmod(path_in(&mem, "home/.cache"), 0777);
  assert_int_equal(db_open_or_none(NULL, NULL, &db, &why, &e), OK);
  assert_null(db);
  assert_int_equal(why.id, ERR_UNTRUSTED);
  chmod(path_in(&mem, "home/.cache"), 0700);
  assert_int_equal(db_open_or_none(NULL, NULL, &db, &why, &e), OK);
  assert_non_null(db);
  db_close(db);
  setenv("MICA_DB", "/dev/null/mica.db", 1); // which was named
  assert_int_equal(db_open_or_none(NULL, NULL, &db, &why, &e), ENV);
  char *far = arena_alloc(&mem, 5001);
  memset(far, 'a', 5000), far[5000] = 0;
  setenv("MICA_DB", far, 1), e = (struct err){0};
  assert_int_equal(db_open(NULL, &db, &e), ENV);
  assert_non_null(strstr(e.text, "MICA_DB is longer than a path can be: 5000 bytes"));
  unsetenv("MICA_DB");
  arena_close(&mem);
}

// ---- file systems ----

static long pretended; // number of a file system, or 0

int __real_fstatfs(int fd, struct statfs *s);
int __wrap_fstatfs(int fd, struct statfs *s)
{
  const int status = __real_fstatfs(fd, s);
  if (pretended) s->f_type = (__typeof__(s->f_type))pretended;
  return status;
}

static void has_journal(const char *path, const char *wanted)
{
  sqlite3 *s;
  sqlite3_stmt *q;
  assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(s, "PRAGMA journal_mode", -1, &q, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(q), SQLITE_ROW);
  assert_string_equal((const char *)sqlite3_column_text(q, 0), wanted);
  sqlite3_finalize(q), sqlite3_close(s);
}

// While another process has the database, a wait ends with the job's patience, and not before: it asks for it at least once.
static void a_wait_ends_with_patience(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  sqlite3 *other;
  const volatile int stop = 1;
  const struct patience stopped = {.stop = &stop}, patient = {0};
  char *path = path_in(&mem, "patience.db"), *json;
  opens(path);
  assert_int_equal(db_open_until(path, &patient, &db, &e), OK);
  assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  db->patience = stopped;
  assert_int_equal(db_put(db, "k", "1", NULL, 0, &e), ENV);
  assert_true(now_seconds() < db->waiting + 1); // of the 5 seconds that it waits for others
  e = (struct err){0};
  sqlite3_exec(other, "COMMIT", NULL, NULL, NULL);
  assert_int_equal(db_put(db, "k", "1", NULL, 0, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, NULL, NULL, &e), OK);
  db_close(db);
  // A database that cannot even be read is not tried again.
  sqlite3_exec(other, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE", NULL, NULL, NULL);
  double start = now_seconds();
  assert_int_equal(db_open_until(path, &stopped, &db, &e), ENV);
  assert_true(now_seconds() < start + 3);
  sqlite3_close(other);
  arena_close(&mem);
}

// A process that is killed while it copies its log into the file leaves the first page with more pages than the file has.
static void a_copy_of_the_log_that_was_killed(void **state)
{
  (void)state;
  enum { ROWS = 400, PAGE = 4096 };
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  char *path = path_in(&mem, "killed.db"), *log = arena_printf(&mem, "%s-wal", path), *torn, *logged, *after, *json;
  size_t n, m, most;
  opens(path);
  assert_int_equal(file_read(&mem, path, &torn, &n, &e), OK);
  assert_int_equal(db_open(path, &db, &e), OK);
  for (int i = 0; i < ROWS; i++) assert_int_equal(db_put(db, arena_printf(&mem, "key %d", i), "{\"some\": \"text\"}", NULL, 0, &e), OK);
  assert_int_equal(file_read(&mem, log, &logged, &m, &e), OK);
  db_close(db);
  assert_int_equal(file_read(&mem, path, &after, &most, &e), OK);
  assert_true(n >= PAGE && most > n);
  memcpy(torn, after, PAGE);
  assert_int_equal(file_write(path, torn, n, &e), OK);
  assert_int_equal(file_write(log, logged, m, &e), OK);
  chmod(path, 0600), chmod(log, 0600);
  if (db_open(path, &db, &e)) fail_msg("%s", e.text);
  for (int i = 0; i < ROWS; i++) assert_int_equal(db_get(db, arena_printf(&mem, "key %d", i), &mem, &json, NULL, NULL, &e), OK);
  db_close(db);
  arena_close(&mem);
}

static void no_log_on_networks(void **state)
{
  (void)state;
  static const long magic[] = {0x6969, (long)0xff534d42, 0x65735546};
  struct arena mem = {0};
  struct err e = {0};
  struct db *a, *b;
  char *path = path_in(&mem, "net/mica.db"), *json;
  opens(path);
  has_journal(path, "wal");
  for (size_t i = 0; i < COUNT(magic); i++) {
    pretended = magic[i];
    if (db_open(path, &a, &e) || db_open(path, &b, &e)) fail_msg("%s", e.text);
    has_journal(path, "delete");
    assert_int_equal(db_put(a, "k", "1", NULL, 0, &e), OK);
    assert_int_equal(db_get(b, "k", &mem, &json, NULL, NULL, &e), OK);
    assert_int_equal(db_put(b, "k", "2", NULL, 0, &e), OK);
    assert_int_equal(access(arena_printf(&mem, "%s-shm", path), F_OK), -1);
    db_close(a), db_close(b);
    pretended = 0;
    opens(path);
    has_journal(path, "wal");
  }
  arena_close(&mem);
}

static void damaged(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  char *path = path_in(&mem, "damaged.db"), *text;
  char junk[8192];
  size_t n;
  memset(junk, 'x', sizeof junk);
  assert_int_equal(file_write(path, junk, sizeof junk, &e), OK);
  assert_int_equal(db_open(path, &db, &e), ENV);
  assert_int_equal(e.id, ERR_DATABASE);
  assert_non_null(strstr(e.text, path));
  assert_null(db);
  e = (struct err){0};
  assert_int_equal(file_read(&mem, path, &text, &n, &e), OK);
  assert_int_equal(n, sizeof junk);
  assert_memory_equal(text, junk, sizeof junk);
  arena_close(&mem);
}

// A good header, then rubbish: the damage shows only when a page is read.
static void damaged_inside(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  char *path = path_in(&mem, "inside.db"), *text, *json;
  size_t n;
  assert_int_equal(db_open(path, &db, &e), OK);
  for (int i = 0; i < 400; i++) assert_int_equal(db_put(db, arena_printf(&mem, "key %d", i), "{\"some\": \"text to fill pages\"}", NULL, 0, &e), OK);
  db_close(db);
  assert_int_equal(file_read(&mem, path, &text, &n, &e), OK);
  memset(text + 200, 0xa5, n - 200);
  assert_int_equal(file_write(path, text, n, &e), OK);
  int status = db_open(path, &db, &e);
  if (status == OK) {
    status = db_get(db, "key 7", &mem, &json, NULL, NULL, &e);
    db_close(db);
  }
  assert_int_equal(status, ENV);
  assert_int_equal(e.id, ERR_DATABASE);
  arena_close(&mem);
}

// Nothing that is no file is opened: this would wait for a writer.
static void no_files(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  char *path = path_in(&mem, "fifo.db");
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(db_open(path, &db, &e), ENV);
  assert_non_null(strstr(e.text, "no regular file"));
  arena_close(&mem);
}

// ---- files that are no databases ----

static void nowhere(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  assert_int_equal(db_open("/dev/null/mica.db", &db, &e), ENV);
  assert_int_equal(e.id, ERR_DATABASE);
  e = (struct err){0};
  assert_int_equal(mkdir(path_in(&mem, "dir.db"), 0700), 0);
  assert_int_equal(db_open(path_in(&mem, "dir.db"), &db, &e), ENV); // a folder is no file
  assert_int_equal(e.id, ERR_DATABASE);
  arena_close(&mem);
}

// With a home of the test's own.
static int enter(void **state)
{
  struct arena mem = {0};
  if (folder_enter(state)) return 1;
  const int status = setenv("HOME", path_in(&mem, "home"), 1) || unsetenv("XDG_CACHE_HOME");
  return arena_close(&mem), status;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(put_and_get),
      cmocka_unit_test(two_at_once),
      cmocka_unit_test(damaged),
      cmocka_unit_test(units),
      cmocka_unit_test(layouts),
      cmocka_unit_test(damaged_inside),
      cmocka_unit_test(nowhere),
      cmocka_unit_test(foreign_files),
      cmocka_unit_test(changed_rows),
      cmocka_unit_test(another_key),
      cmocka_unit_test(modes),
      cmocka_unit_test(of_others),
      cmocka_unit_test(the_key),
      cmocka_unit_test(without_a_home),
      cmocka_unit_test(no_files),
      cmocka_unit_test(a_wait_ends_with_patience),
      cmocka_unit_test(a_copy_of_the_log_that_was_killed),
      cmocka_unit_test(no_log_on_networks),
  };
  return cmocka_run_group_tests(tests, enter, folder_leave);
}
