// Parses files, kernels and directives. Recursive descent with one token of lookahead, which calls the builder directly. An error has line, column
// and a hint.
#include "tile/tile_parse.h"

#include <string.h>

// ---- tokens ----
void read_next(struct reader *r) { r->t = tile_lex(&r->lex); }

bool read_take(struct reader *r, int kind)
{
  if (r->t.kind != kind) return false;
  return read_next(r), true;
}

bool read_word(struct reader *r, const char *word)
{
  if (!tile_is(&r->t, word)) return false;
  return read_next(r), true;
}

int read_unexpected(struct reader *r, const char *wanted)
{
  char text[64];
  tile_token_text(text, &r->t);
  if (r->t.kind == TILE_BAD) return err_set(r->e, ERR_TILE, r->t.at, "%s %s", text, r->t.why);
  int s = err_set(r->e, ERR_TILE, r->t.at, "expected %s, found %s", wanted, text);
  if (r->t.kind == ';') err_hint(r->e, "statements follow one another without `;`");
  return s;
}

int read_expect(struct reader *r, int kind, const char *what) { return read_take(r, kind) ? OK : read_unexpected(r, what); }

int read_close(struct reader *r, int kind, int opening, struct loc opened)
{
  if (read_take(r, kind)) return OK;
  char wanted[32];
  bool list = kind == ')' || kind == ']';
  snprintf(wanted, sizeof wanted, list ? "`,` or `%c`" : "`%c`", kind);
  int s = read_unexpected(r, wanted);
  err_hint(r->e, "the `%c` at line %d, column %d is still open", opening, opened.line, opened.col);
  return s;
}

int read_number(struct reader *r, int64_t lo, int64_t hi, const char *what, int64_t *out)
{
  if (r->t.kind != TILE_NUMBER) return read_unexpected(r, what);
  if (r->t.value < lo || r->t.value > hi)
    return err_set(r->e, ERR_TILE, r->t.at, "%s lies in %lld .. %lld, not %lld", what, (long long)lo, (long long)hi, (long long)r->t.value);
  *out = r->t.value;
  return read_next(r), OK;
}

char *read_text(struct reader *r, const struct tile_token *t) { return arena_printf(r->mem, "%.*s", t->n, t->p); }

// ---- names ----
static const char *what_is(char sigil) { return sigil == '%' ? "a tensor" : sigil == '#' ? "a group" : "a scalar"; }

static int no_name(struct reader *r, char sigil)
{
  char wanted[64];
  snprintf(wanted, sizeof wanted, "the name of %s, %cNAME,", what_is(sigil), sigil);
  return read_unexpected(r, wanted);
}

static int name_itself(struct reader *r, char sigil, struct tile_token *name)
{
  if (r->t.kind != TILE_WORD && (r->t.kind != TILE_NUMBER || sigil == '@')) return no_name(r, sigil);
  if (sigil == '@' && *r->t.p >= '0' && *r->t.p <= '9')
    return err_set(r->e, ERR_TILE, r->t.at, "`%.*s` is neither a number nor the name of a scalar", r->t.n, r->t.p);
  *name = r->t;
  return read_next(r), OK;
}

int read_name(struct reader *r, char sigil, struct tile_token *name)
{
  struct tile_token mark = r->t;
  if (!read_take(r, sigil)) return no_name(r, sigil);
  if (!r->t.glued && r->t.kind != TILE_END) return r->t = mark, no_name(r, sigil);
  READ(name_itself(r, sigil, name));
  return name->at = mark.at, OK;
}

int read_scalar_name(struct reader *r, struct tile_token *name) { return r->t.kind == '@' ? read_name(r, '@', name) : name_itself(r, '@', name); }

int read_define(struct reader *r, char sigil, const struct tile_token *name, int index, ex var)
{
  const struct tile_name *old = tile_scope_find(&r->scope, sigil, name->p, name->n);
  if (old && old - r->scope.names >= r->scope.start) {
    int s =
        err_set(r->e, ERR_DUPLICATE, name->at, "`%s%.*s` is already defined in this block", sigil == '@' ? "" : (char[]){sigil, 0}, name->n, name->p);
    err_hint(r->e, "the first definition is at line %d; give this one another name", old->at.line);
    return s;
  }
  tile_scope_add(&r->scope, (struct tile_name){.sigil = sigil, .name = read_text(r, name), .at = name->at, .index = index, .var = var});
  return OK;
}

int read_use(struct reader *r, char sigil, const struct tile_token *name, const struct tile_name **out)
{
  *out = tile_scope_find(&r->scope, sigil, name->p, name->n);
  if (*out) return OK;
  char *word = read_text(r, name);
  const char *mark = sigil == '@' ? "" : (char[]){sigil, 0};
  int s = err_set(r->e, ERR_NAME, name->at, "`%s%s` is not defined", mark, word);
  const char *near = tile_scope_near(&r->scope, sigil, word);
  for (const char *other = "%#@"; *other && !near; other++)
    if (*other != sigil && tile_scope_find(&r->scope, *other, name->p, name->n))
      return err_hint(r->e, "there is %s `%c%s`; here %s is needed", what_is(*other), *other, word, what_is(sigil)), s;
  if (near)
    err_hint(r->e, "did you mean `%s%s`?", mark, near);
  else
    err_hint(r->e, "names are seen from their definition to the end of its block");
  return s;
}

// ---- directives ----
static struct tile_setting *setting(struct reader *r, const struct tile_token *name)
{
  for (int i = 0; i < r->nset; i++)
    if (tile_is(name, r->set[i].name)) return r->set[i].used = true, &r->set[i];
  return NULL;
}

static int param(struct reader *r)
{
  struct tile_token name[TILE_SOME];
  int n = 0;
  int64_t lo = 1, hi = TILE_SIZE_MOST, multiple = 1;
  do {
    if (n + r->b.k->nparams >= TILE_SOME) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d parameters", TILE_SOME);
    READ(name_itself(r, '@', &name[n++]));
  } while (read_take(r, ','));
  if (read_word(r, "in")) {
    READ(read_number(r, 0, TILE_SIZE_MOST, "the least value", &lo));
    READ(read_expect(r, '.', "`..`"));
    READ(read_expect(r, '.', "`..`"));
    READ(read_number(r, lo, TILE_SIZE_MOST, "the largest value", &hi));
  }
  if (read_word(r, "multiple")) READ(read_number(r, 1, INT32_MAX, "the divisor of the parameter", &multiple));
  for (int i = 0; i < n; i++) {
    ex var;
    setting(r, &name[i]); // set at launch
    READ(TILE_AT(r, name[i].at, build_param(&r->b, read_text(r, &name[i]), lo, hi, multiple, &var)));
    READ(read_define(r, '@', &name[i], -1, var));
  }
  return OK;
}

// const NAME = e; a setting of that name replaces e.
static int constant(struct reader *r)
{
  struct tile_token name;
  ex value;
  READ(name_itself(r, '@', &name));
  READ(read_expect(r, '=', "`=` and the value"));
  READ(read_ex(r, &value));
  const struct tile_setting *s = setting(r, &name);
  return read_define(r, '@', &name, -1, s ? EX_C(s->value) : value);
}

// sm_90 means sm_90a. Features of later targets are not portable.
static bool is_target(const struct tile_token *t, const char *name)
{
  size_t n = strlen(name), m = name[n - 1] == 'a' ? n - 1 : n;
  return tile_is(t, name) || (t->kind == TILE_WORD && (size_t)t->n == m && !memcmp(t->p, name, m));
}

static int target(struct reader *r)
{
  struct tile_nearest near = tile_nearest(r->t.kind == TILE_WORD ? read_text(r, &r->t) : "");
  struct str all = {0};
  for (int i = 0; i < target_gpus(); i++) {
    const struct target *t = target_gpu_at(i);
    if (is_target(&r->t, t->name)) return str_free(&all), read_next(r), r->b.k->arch = t->arch, OK;
    tile_nearest_try(&near, t->name);
    str_add(&all, i ? ", %s" : "%s", t->name);
  }
  int s = read_unexpected(r, "a target");
  if (near.best)
    err_hint(r->e, "did you mean `%s`? There are %s", near.best, str_text(&all));
  else
    err_hint(r->e, "there are %s", str_text(&all));
  return str_free(&all), s;
}

static int cluster(struct reader *r)
{
  int64_t n;
  READ(read_number(r, 1, 16, "the size of a cluster", &n));
  return r->b.k->cluster = (int)n, OK;
}

static int order(struct reader *r)
{
  bool row = tile_is(&r->t, "row");
  if (!row && !tile_is(&r->t, "column")) return read_unexpected(r, "`row` or `column`");
  r->row = row;
  return read_next(r), OK;
}

static const struct {
  const char *name;
  int (*read)(struct reader *r);
} directives[] = {{"param", param}, {"const", constant}, {"target", target}, {"cluster", cluster}, {"order", order}};

// ---- kernels ----
static int head_line(struct reader *r, bool *done)
{
  struct tile_token name;
  if (r->t.kind == '#') return read_group_statement(r);
  for (size_t i = 0; i < COUNT(directives); i++)
    if (read_word(r, directives[i].name)) return directives[i].read(r);
  *done = true;
  if (r->t.kind != '%') return read_spec(r, NULL);
  READ(read_name(r, '%', &name));
  if (r->t.kind != ':' && r->t.kind != '=') return read_spec(r, &name);
  *done = false;
  return read_tensor_statement(r, &name);
}

static int kernel_inside(struct reader *r)
{
  int mark = tile_scope_open(&r->scope);
  bool done = false, row = r->row;
  while (!done) {
    if (r->t.kind == TILE_END || r->t.kind == '}') return read_unexpected(r, "the kernel's spec");
    READ(head_line(r, &done));
  }
  tile_scope_close(&r->scope, mark);
  r->row = row;
  return TILE_AT(r, r->t.at, build_finish(&r->b));
}

static int kernel(struct reader *r)
{
  if (r->p->nkernels == TILE_SOME) return err_set(r->e, ERR_LIMIT, r->t.at, "more than %d kernels in a file", TILE_SOME);
  if (!read_word(r, "kernel")) return read_unexpected(r, "`kernel`");
  struct tile_token name = r->t;
  if (!tile_is(&name, read_text(r, &name)) || (*name.p >= '0' && *name.p <= '9')) return read_unexpected(r, "the kernel's name");
  const char *text = read_text(r, &name);
  for (int i = 0; i < r->p->nkernels; i++)
    if (!strcmp(r->p->kernels[i]->name, text)) return err_set(r->e, ERR_DUPLICATE, name.at, "there is a kernel `%s` already", text);
  READ(build_kernel(&r->b, r->p, text, r->e));
  r->b.k->at = name.at;
  read_next(r);
  struct loc opened = r->t.at;
  READ(read_expect(r, '{', "`{`"));
  READ(kernel_inside(r));
  return read_close(r, '}', '{', opened);
}

// A file without `kernel` is one kernel, named after the file.
static const char *name_of_file(struct arena *mem, const char *file)
{
  const char *slash = file ? strrchr(file, '/') : NULL, *from = slash ? slash + 1 : file ? file : "";
  char *name = arena_printf(mem, "%.*s", MIN(TILE_NAME, (int)strcspn(from, ".")), from);
  for (char *c = name; *c; c++) {
    bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
    if (!letter && !(c > name && *c >= '0' && *c <= '9')) *c = '_';
  }
  return *name ? name : "kernel";
}

static int bare_kernel(struct reader *r)
{
  struct loc at = r->t.at;
  READ(build_kernel(&r->b, r->p, name_of_file(r->mem, r->p->file), r->e));
  r->b.k->at = at;
  READ(kernel_inside(r));
  return r->t.kind == TILE_END ? OK : read_unexpected(r, "the end of the file");
}

static int file(struct reader *r)
{
  while (read_word(r, "order")) READ(order(r));
  r->p->row = r->row;
  if (r->t.kind == TILE_END) return err_set(r->e, ERR_TILE, r->t.at, "no kernel");
  if (!tile_is(&r->t, "kernel")) return bare_kernel(r);
  while (r->t.kind != TILE_END) READ(kernel(r));
  return OK;
}

int tile_parse(struct arena *mem, const char *path, const char *text, struct tile_program **out, struct err *e)
{
  return tile_parse_set(mem, path, text, 0, NULL, out, e);
}

static int unknown_setting(struct reader *r)
{
  for (int i = 0; i < r->nset; i++)
    if (!r->set[i].used) {
      int s = err_set(r->e, ERR_OPTION, (struct loc){r->p->file, 0, 0}, "no kernel has a constant or parameter `%s`", r->set[i].name);
      return err_hint(r->e, "the lines `const NAME = ...` and `param NAME` declare them"), s;
    }
  return OK;
}

int tile_parse_set(struct arena *mem, const char *path, const char *text, int nset, struct tile_setting *set, struct tile_program **out,
                   struct err *e)
{
  size_t n = strlen(text);
  struct loc start = {path, 1, 1};
  if (n > TILE_BYTES) return err_set(e, ERR_LIMIT, start, "a tile program has at most %d bytes, this one %zu", TILE_BYTES, n);
  struct reader *r = NEW(mem, struct reader);
  r->mem = mem, r->e = e, r->row = true, r->scope.mem = mem, r->nset = nset, r->set = set;
  r->p = tile_program_new(mem, path, true);
  tile_lex_open(&r->lex, text, n, path);
  read_next(r);
  READ(file(r));
  READ(unknown_setting(r));
  return *out = r->p, OK;
}
