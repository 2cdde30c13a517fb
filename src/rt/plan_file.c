// Files of plans. A plan says how a program is computed fastest on a GPU: a kernel graph, and how each of its kernels is made. A line of a
// file is one plan, a JSON object that begins with its key, so that a plan is found without reading the others. Nothing in it is
// believed (drive/plans.c).
#include "rt/db.h"
#include "base/doc.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 16 << 20, MOST_PATH = 1024, LONGEST_WORD = 128 };
static const char WON[] = "won ", IMPORTED[] = "plan ";

void plans_head(struct str *out) { str_add(out, "{\"mica plans\":%d}\n", PLANS_FORMAT); }

int plans_format(const char *line, size_t n)
{
  json_t *v = json_loadb(line, n, 0, NULL);
  const json_t *format = json_object_get(v, "mica plans");
  const int f = json_is_integer(format) ? (int)json_integer_value(format) : 0;
  return json_decref(v), f;
}

// ---- the installed file ----

static bool is_there(const char *folder, const char *below, const char *target, char out[MOST_PATH])
{
  return snprintf(out, MOST_PATH, "%s%s/%s.jsonl", folder, below, target) < MOST_PATH && !access(out, F_OK);
}

// $MICA_PLANS is a folder with a file for each target. Unless it is set: beside the library, or in the share of where it was installed.
static bool installed(const char *target, char out[MOST_PATH])
{
  static const char *const below[] = {"/share/mica/db", "/../share/mica/db", "/../../share/mica/db"};
  const char *named = getenv("MICA_PLANS");
  char here[MOST_PATH];
  if (named) return *named && is_there(named, "", target, out);
  for (size_t i = 0; file_here(here, sizeof here) && i < COUNT(below); i++)
    if (is_there(here, below[i], target, out)) return true;
  return false;
}

static int read_all(int fd, const char *path, struct arena *mem, char **text, size_t *n, struct err *e)
{
  struct stat s;
  if (fstat(fd, &s) || !S_ISREG(s.st_mode)) return err_set(e, ERR_FILE, NOWHERE, "%.500s is no regular file", path);
  if (s.st_size > LARGEST) return err_set(e, ERR_LIMIT, NOWHERE, "%.500s is larger than %d MiB", path, LARGEST >> 20);
  *text = arena_alloc(mem, (size_t)s.st_size + 1), *n = 0;
  for (ssize_t got; *n < (size_t)s.st_size && (got = read(fd, *text + *n, (size_t)s.st_size - *n)) > 0;) *n += (size_t)got;
  return OK;
}

// The file is this user's or root's, and nobody else can write to it.
static int read_own(const char *path, struct arena *mem, char **text, size_t *n, struct err *e)
{
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return err_set(e, ERR_FILE, NOWHERE, "cannot open %.500s: %s", path, strerror(errno));
  int status = own_check(fd, path, OWN_ROOTS, e);
  if (status == OK) status = read_all(fd, path, mem, text, n, e);
  return close(fd), status;
}

static int find_lines(const char *path, const char *text, size_t n, const char *key, struct arena *mem, int most, struct plan_row *out)
{
  char begin[64];
  const size_t length = (size_t)snprintf(begin, sizeof begin, "{\"key\":\"%.40s\",", key);
  int found = 0, line = 1;
  for (const char *p = text, *stop; p < text + n && found < most; p = stop + 1, line++) {
    const size_t left = (size_t)(text + n - p);
    stop = memchr(p, '\n', left);
    if (!stop) stop = text + n;
    if (left <= length || memcmp(p, begin, length) != 0) continue;
    out[found++] = (struct plan_row){arena_printf(mem, "%s:%d", path, line), arena_printf(mem, "%.*s", (int)(stop - p), p)};
  }
  return found;
}

static int find_installed(const char *target, const char *key, struct arena *mem, int most, struct plan_row *out, char *note)
{
  char path[MOST_PATH], *text;
  size_t n;
  int found = 0;
  struct err e = {0};
  struct arena whole = {0};
  if (!installed(target, path)) return 0;
  if (read_own(path, &whole, &text, &n, &e) != OK)
    snprintf(note, PLANS_NOTE, "no installed plan is used: %.300s", e.text);
  else {
    const char *end = memchr(text, '\n', n);
    const int format = plans_format(text, end ? (size_t)(end - text) : n);
    if (format == PLANS_FORMAT)
      found = find_lines(path, text, n, key, mem, most, out);
    else
      snprintf(note, PLANS_NOTE, "no installed plan is used: %.200s has the format %d, and this build reads %d", path, format, PLANS_FORMAT);
  }
  return arena_close(&whole), found;
}

// ---- the database ----

static const char *row_key(struct arena *mem, const char *kind, const char *target, const char *gpu, const char *key)
{
  return arena_printf(mem, "%s%s %s %s", kind, target, key, gpu);
}

int plans_find(struct db *db, const char *target, const char *gpu, const char *key, struct arena *mem, struct plan_row *out, char *note)
{
  char *json;
  struct err none = {0};
  int n = 0;
  if (db && db_get(db, row_key(mem, IMPORTED, target, gpu, key), mem, &json, NULL, NULL, &none) == OK)
    out[n++] = (struct plan_row){"the database", json};
  return n + find_installed(target, key, mem, PLANS_MOST - n, out + n, note);
}

int plans_put(struct db *db, bool won, const char *target, const char *gpu, const char *key, const char *json, struct err *e)
{
  struct arena mem = {0};
  int status = db_put(db, row_key(&mem, won ? WON : IMPORTED, target, gpu, key), json, NULL, 0, e);
  if (status == OK && !won) status = db_put(db, row_key(&mem, IMPORTED, target, "", key), json, NULL, 0, e); // for machines without a GPU
  return arena_close(&mem), status;
}

// A plan of the members that the format has, the key first.
static json_t *known(const json_t *plan)
{
  static const char *const members[] = {"key", "program", "target", "gpu", "graph", "how", "dependent", "schedule", "us"};
  json_t *out = json_object();
  for (size_t i = 0; i < COUNT(members); i++) json_object_set(out, members[i], json_object_get(plan, members[i]));
  return out;
}

int plans_import(struct db *db, const char *line, size_t n, struct err *e)
{
  static const char *const keys[] = {"target", "gpu", "key"};
  const char *word[COUNT(keys)];
  bool good = true;
  json_t *v = json_loadb(line, n, 0, NULL), *plan = known(v);
  for (size_t i = 0; i < COUNT(keys); i++)
    good &= (word[i] = json_string_value(json_object_get(v, keys[i]))) && *word[i] && strlen(word[i]) < LONGEST_WORD;
  char *json = good ? json_dumps(plan, JSON_COMPACT) : NULL;
  const int status = json ? plans_put(db, false, word[0], word[1], word[2], json, e) : NO;
  if (json) mem_free(json);
  return json_decref(plan), json_decref(v), status;
}

struct plans_walk {
  struct db *db;
  const char *kind;
  int (*plan)(void *arg, const char *json);
  void *arg;
  struct err *e;
};

// Imported ones for any GPU are there for their own GPU too. A plan that this user's race also made is written once, as the race's.
static int each_row(void *arg, const struct db_row *r)
{
  struct plans_walk *w = arg;
  struct arena mem = {0};
  const size_t n = strlen(w->kind);
  char *json;
  int status = OK;
  if (strncmp(r->key, w->kind, n) != 0 || r->key[strlen(r->key) - 1] == ' ') return OK;
  if (w->kind == IMPORTED) status = db_get(w->db, arena_printf(&mem, "%s%s", WON, r->key + n), &mem, &json, NULL, NULL, w->e);
  arena_close(&mem);
  if (w->kind == IMPORTED && status != NO) return status;
  return w->plan(w->arg, r->json);
}

int plans_each(struct db *db, int (*plan)(void *arg, const char *json), void *arg, struct err *e)
{
  TRY(db_each(db, each_row, &(struct plans_walk){db, WON, plan, arg, e}, e));
  return db_each(db, each_row, &(struct plans_walk){db, IMPORTED, plan, arg, e}, e);
}
