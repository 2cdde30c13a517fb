// Rows of the database on their way to another machine or file. Machine code never travels: it would be run unseen. A row goes with its
// checksum, so that the one who made it knows it again; a row of somebody else is believed only where what it says is proved anew.
#include "rt/db.h"
#include "base/memory.h"

#include <string.h>

int db_each(struct db *db, int (*row)(void *arg, const struct db_row *r), void *arg, struct err *e)
{
  sqlite3_stmt *s;
  int step, status = OK;
  if (sqlite3_prepare_v2(db->sql, "SELECT key, json, sum FROM best WHERE so IS NULL ORDER BY key", -1, &s, NULL) != SQLITE_OK)
    return db_failed(db, "read", e);
  while (status == OK && (step = sqlite3_step(s)) == SQLITE_ROW) {
    struct db_row r = {.key = (const char *)sqlite3_column_text(s, 0), .json = (const char *)sqlite3_column_text(s, 1)};
    if (!r.key || !r.json || sqlite3_column_bytes(s, 2) != SHA256) continue;
    memcpy(r.sum, sqlite3_column_blob(s, 2), SHA256);
    if (db_signed(db, &r)) status = row(arg, &r);
  }
  if (status == OK && step != SQLITE_DONE) status = db_failed(db, "read", e);
  return sqlite3_finalize(s), status;
}

int db_add(struct db *db, const struct db_row *r, bool *added, struct err *e)
{
  struct arena mem = {0};
  char *json;
  int status = db_get(db, r->key, &mem, &json, NULL, NULL, e);
  arena_close(&mem);
  *added = status == NO;
  return status == NO ? db_put(db, r->key, r->json, NULL, 0, e) : status;
}
