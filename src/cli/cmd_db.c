// mica db: export and import of results. The file of `export` has one line of JSON for each row, after a header line. With --portable the rows are
// plans (rt/plan_file.c).
#include "base/own.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "front/parse.h"

#include <string.h>

enum { FORMAT = 1 };
static const char PART[] = "part "; // keys of searches: their graphs are candidates, which are proved and measured again

struct cli_db {
  struct cli *c;
  struct db *db; // the database that is written
  struct str out;
  int rows, added, refused;
  bool plans; // the input file has plans
};

// ---- export ----

static int write_row(void *arg, const struct db_row *r)
{
  struct cli_db *x = arg;
  char sum[2 * SHA256 + 1];
  for (int i = 0; i < SHA256; i++) snprintf(sum + 2 * i, 3, "%02x", r->sum[i]);
  json_t *v = json_pack("{s:s, s:s, s:s}", "key", r->key, "sum", sum, "json", r->json);
  char *line = json_dumps(v, JSON_COMPACT);
  json_decref(v);
  if (!line) return OK; // invalid UTF-8
  str_add(&x->out, "%s\n", line);
  mem_free(line);
  return x->rows++, OK;
}

static int write_plan(void *arg, const char *json)
{
  struct cli_db *x = arg;
  str_add(&x->out, "%s\n", json);
  return x->rows++, OK;
}

static int export_plans(struct cli_db *x, const char *path)
{
  plans_head(&x->out);
  TRY(plans_each(x->db, write_plan, x, &x->c->err));
  TRY(output_write(path, str_text(&x->out), x->out.n, &x->c->err));
  if (output_wants_text(x->c) && strcmp(path, "-")) printf("%d plan%s in %s\n", x->rows, x->rows == 1 ? " is" : "s are", path);
  return OK;
}

static int db_export(struct cli_db *x, const char *path)
{
  if (x->c->portable) return export_plans(x, path);
  str_add(&x->out, "{\"mica database\":%d,\"sources\":\"%s\"}\n", FORMAT, build_fingerprint);
  TRY(db_each(x->db, write_row, x, &x->c->err));
  TRY(output_write(path, str_text(&x->out), x->out.n, &x->c->err));
  if (output_wants_text(x->c) && strcmp(path, "-"))
    printf("%d results are in %s; machine code is compiled again where they are used\n", x->rows, path);
  return OK;
}

// ---- import ----

static bool hexadecimal(const char *text, uint8_t sum[SHA256])
{
  static const char digits[] = "0123456789abcdef";
  if (!text || strlen(text) != 2 * SHA256) return false;
  for (int i = 0; i < 2 * SHA256; i++) {
    const char *d = strchr(digits, text[i]);
    if (!d) return false;
    sum[i / 2] = (uint8_t)(sum[i / 2] << 4 | (d - digits));
  }
  return true;
}

// Rows of this user are accepted. Only searches are accepted from other users.
static int take_row(struct cli_db *x, const struct db_row *r)
{
  bool added;
  const bool own = db_signed(x->db, r);
  if (!own && strncmp(r->key, PART, strlen(PART)) != 0) return x->refused++, OK;
  TRY(db_add(x->db, r, &added, &x->c->err));
  return x->added += added, x->rows++, OK;
}

static int damaged(struct cli_db *x, const char *path, int line)
{
  err_set(&x->c->err, ERR_JSON, (struct loc){path, line, 0}, "this is not a row of a database");
  return err_hint(&x->c->err, "`mica db export FILE` writes such files; the rows before this line were imported"), (int)x->c->err.status;
}

static int take_line(struct cli_db *x, const char *path, int line, const char *text, size_t n)
{
  json_t *v = json_loadb(text, n, 0, NULL);
  struct db_row r = {json_string_value(json_object_get(v, "key")), json_string_value(json_object_get(v, "json")), {0}};
  const bool good = r.key && r.json && hexadecimal(json_string_value(json_object_get(v, "sum")), r.sum);
  const int status = good ? take_row(x, &r) : damaged(x, path, line);
  return json_decref(v), status;
}

static int take_plan(struct cli_db *x, const char *path, int line, const char *text, size_t n)
{
  const int status = plans_import(x->db, text, n, &x->c->err);
  if (status == NO) return damaged(x, path, line);
  if (status == OK) x->rows++, x->added++;
  return status;
}

static int other_format(struct cli_db *x, const char *path, int format, int own)
{
  return err_set(&x->c->err, ERR_JSON, (struct loc){path, 1, 0}, "this file has the format %d, and this build reads %d", format, own);
}

static int take_head(struct cli_db *x, const char *path, const char *text, size_t n)
{
  const int plans = plans_format(text, n);
  if ((x->plans = plans != 0)) return plans == PLANS_FORMAT ? OK : other_format(x, path, plans, PLANS_FORMAT);
  json_t *v = json_loadb(text, n, 0, NULL);
  const json_t *is = json_object_get(v, "mica database");
  const int format = json_is_integer(is) ? (int)json_integer_value(is) : 0;
  const int status = format == FORMAT ? OK : format ? other_format(x, path, format, FORMAT) : damaged(x, path, 1);
  const char *sources = json_string_value(json_object_get(v, "sources"));
  if (status == OK && (!sources || strcmp(sources, build_fingerprint) != 0))
    fprintf(stderr, "warning: the results are of another build of Mica, and this one does not use them\n");
  return json_decref(v), status;
}

static int db_import(struct cli_db *x, const char *path)
{
  char *text;
  size_t n;
  int number = 0;
  TRY(file_read(&x->c->mem, path, &text, &n, &x->c->err));
  for (const char *p = text, *stop; p < text + n; p = stop + 1) {
    stop = memchr(p, '\n', (size_t)(text + n - p));
    if (!stop) stop = text + n;
    if (!number++)
      TRY(take_head(x, path, p, (size_t)(stop - p)));
    else
      TRY((x->plans ? take_plan : take_line)(x, path, number, p, (size_t)(stop - p)));
  }
  return number ? OK : damaged(x, path, 1);
}

// ---- merge ----

static int merge_row(void *arg, const struct db_row *r)
{
  struct cli_db *x = arg;
  bool added;
  TRY(db_add(x->db, r, &added, &x->c->err));
  return x->added += added, x->rows++, OK;
}

// Another database of this user: rows without this user's checksum are ignored.
static int db_merge(struct cli_db *x, const char *path)
{
  struct db *from;
  char *text;
  size_t n;
  TRY(file_read(&x->c->mem, path, &text, &n, &x->c->err)); // a missing file is not created
  TRY(db_open(path, &from, &x->c->err));
  const int status = db_each(from, merge_row, x, &x->c->err);
  return db_close(from), status;
}

static int tell_imported(const struct cli_db *x)
{
  if (!output_wants_text(x->c)) return OK;
  if (x->plans) return printf("%d plan%s imported; each is proved when it is used\n", x->rows, x->rows == 1 ? "" : "s"), OK;
  printf("%d result%s imported, %d of them new\n", x->rows, x->rows == 1 ? "" : "s", x->added);
  if (x->refused)
    printf("%d of another user were skipped: only their searches are imported, whose graphs are proved and measured here\n", x->refused);
  return OK;
}

static const struct {
  const char *name;
  int (*run)(struct cli_db *x, const char *path);
  bool takes;
} verbs[] = {{"export", db_export, false}, {"import", db_import, true}, {"merge", db_merge, true}};

int cmd_db(struct cli *c)
{
  struct near near = near_start(c->args[0]);
  for (size_t i = 0; i < COUNT(verbs); i++) {
    struct cli_db x = {.c = c};
    near_try(&near, verbs[i].name);
    if (strcmp(verbs[i].name, c->args[0])) continue;
    TRY(db_open(c->db, &x.db, &c->err));
    int status = verbs[i].run(&x, c->args[1]);
    if (status == OK && verbs[i].takes) status = tell_imported(&x);
    str_free(&x.out);
    return db_close(x.db), status;
  }
  return option_unknown(c, "verb of `mica db`", c->args[0], near.best, "there are export, import and merge");
}
