// db: what the files of the database share. db.c: rows; db_travel.c: rows to and from other files; db_open.c: whose the file is, and how it is opened; key.c: the key of the checksums.
#ifndef MICA_DB_H
#define MICA_DB_H

#include "base/own.h"
#include "rt/rt.h"

#include <sqlite3.h>

enum db_statement { DB_GET, DB_PUT, DB_UNIT_GET, DB_UNIT_PUT, DB_UNIT_DROP, DB_UNIT_OLD, DB_STATEMENTS };

struct db {
  sqlite3 *sql;
  sqlite3_stmt *s[DB_STATEMENTS];
  char *path; // as it was given
  uint8_t key[SHA256];
  char note[400]; // what was not used, or ""
  struct patience patience;
  double waiting; // for another process, since when
};

int db_failed(struct db *db, const char *what, struct err *e);

// ---- db_open.c ----
int db_prepare(struct db *db, struct err *e); // path is set
void db_shut(struct db *db);

// ---- key.c ----
// The folder of this user's own files, made by nobody yet; false where neither XDG_CACHE_HOME nor HOME names one.
bool cache_folder(char out[OWN_PATH]);
// The user's 32 random bytes, made where there are none: in the user's folder, else beside the database.
int key_open(const struct own_place *db, uint8_t key[SHA256], struct err *e);

#endif
