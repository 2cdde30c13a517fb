// The database: what was put is got back, and files that are damaged or cannot be written are reported, not touched.
#include "folder.h"
#include "rt/rt.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
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

// A database of the layout before has no units; it gets the table and keeps what it has. One of a later layout is left alone.
static void layouts(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct db *db;
  sqlite3 *sql;
  char *path = path_in(&mem, "old.db"), *json;
  assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
  assert_int_equal(sqlite3_exec(sql, "CREATE TABLE best (key TEXT PRIMARY KEY, json TEXT NOT NULL, so BLOB, made TEXT NOT NULL DEFAULT"
                                     " CURRENT_TIMESTAMP) WITHOUT ROWID; INSERT INTO best (key, json) VALUES ('k', '[1]');"
                                     " PRAGMA user_version = 1", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(db_open(path, &db, &e), OK);
  assert_int_equal(db_get(db, "k", &mem, &json, NULL, NULL, &e), OK);
  assert_string_equal(json, "[1]");
  assert_int_equal(db_unit_put(db, "a", 1, "x", 1, &e), OK);
  db_close(db);
  assert_int_equal(sqlite3_exec(sql, "PRAGMA user_version = 3", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(sql);
  assert_int_equal(db_open(path, &db, &e), ENV);
  assert_non_null(strstr(e.text, "newer"));
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
  for (int i = 0; i < 400; i++)
    assert_int_equal(db_put(db, arena_printf(&mem, "key %d", i), "{\"some\": \"text to fill pages\"}", NULL, 0, &e), OK);
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

static void nowhere(void **state)
{
  (void)state;
  struct err e = {0};
  struct db *db;
  assert_int_equal(db_open("/dev/null/mica.db", &db, &e), ENV);
  assert_int_equal(e.id, ERR_DATABASE);
  e = (struct err){0};
  assert_int_equal(db_open(folder, &db, &e), ENV); // a folder is no file
  assert_int_equal(e.id, ERR_DATABASE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(put_and_get),    cmocka_unit_test(two_at_once), cmocka_unit_test(damaged),
      cmocka_unit_test(units),          cmocka_unit_test(layouts),
      cmocka_unit_test(damaged_inside), cmocka_unit_test(nowhere),
  };
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
