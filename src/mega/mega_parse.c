// The text form of models (docs/mega.md), read into a checked model. Any bytes are safe.
#include "front/parse.h"
#include "mega/mega.h"

#include <string.h>

struct mega_text {
  struct arena *mem;
  struct lexer lex;
  struct token t;
  struct mega_model *m;
  const struct mega_sizes *s;
  struct err *e;
};

static void next(struct mega_text *x) { x->t = lex_next(&x->lex); }

static void skip_lines(struct mega_text *x)
{
  while (x->t.kind == TOK_LINE || x->t.kind == ';') next(x);
}

static int unexpected(struct mega_text *x, const char *wanted)
{
  char found[64];
  lex_text(found, &x->t);
  if (x->t.kind == TOK_BAD) return err_set(x->e, ERR_SYNTAX, x->t.at, "%s %s", found, x->t.why);
  err_set(x->e, ERR_SYNTAX, x->t.at, "expected %s, found %s", wanted, found);
  return err_hint(x->e, "docs/mega.md has the grammar"), USER;
}

static bool take(struct mega_text *x, int kind) { return x->t.kind == kind ? next(x), true : false; }
static int expect(struct mega_text *x, int kind, const char *what) { return take(x, kind) ? OK : unexpected(x, what); }

static bool take_word(struct mega_text *x, const char *word) { return lex_is(&x->t, word) ? next(x), true : false; }

static int name(struct mega_text *x, const char *what, const char **out, struct loc *at)
{
  if (x->t.kind != TOK_NAME) return unexpected(x, what);
  if (at) *at = x->t.at;
  *out = arena_printf(x->mem, "%.*s", x->t.n, x->t.p);
  return next(x), OK;
}

static int integer(struct mega_text *x, int64_t lo, int64_t hi, int64_t *out)
{
  if (x->t.kind != TOK_NUMBER) return unexpected(x, "an integer");
  *out = x->t.number.whole;
  if (x->t.number.lost != WHOLE || *out < lo || *out > hi)
    return err_set(x->e, ERR_EXTENT, x->t.at, "%.*s is not an integer from %lld to %lld", MIN(x->t.n, 40), x->t.p, (long long)lo, (long long)hi);
  return next(x), OK;
}

static int small_integer(struct mega_text *x, int lo, int hi, int *out)
{
  int64_t v;
  TRY(integer(x, lo, hi, &v));
  return *out = (int)v, OK;
}

// ---- tensors ----

static int dimension(struct mega_text *x, int64_t *out)
{
  if (take_word(x, "rows")) return *out = x->m->rows, OK;
  return integer(x, 1, INT64_C(1) << 40, out);
}

// `split D`, `split D by N, N`: a rank has its part of dimension D, or of each section.
static int split(struct mega_text *x, struct mega_tensor *t)
{
  TRY(small_integer(x, 0, MEGA_DIMS - 1, &t->shard.dim));
  if (!take_word(x, "by")) {
    if (t->shard.dim < t->rank) t->shard.size[t->shard.n++] = t->dim[t->shard.dim];
    return t->shard.n ? OK : err_set(x->e, ERR_EXTENT, x->t.at, "there is no dimension %d", t->shard.dim);
  }
  do {
    if (t->shard.n == MEGA_SECTIONS) return err_set(x->e, ERR_LIMIT, x->t.at, "a dimension has at most %d sections", MEGA_SECTIONS);
    TRY(integer(x, 1, INT64_C(1) << 40, &t->shard.size[t->shard.n++]));
  } while (take(x, ','));
  return OK;
}

// `like T`: the values of table T, of which this tensor is a shard. All dimensions but the split one are equal.
static int like(struct mega_text *x, struct mega_tensor *t)
{
  const char *id;
  struct loc at;
  TRY(name(x, "a tensor", &id, &at));
  t->like = mega_tensor_find(x->m, id) + 1;
  struct mega_tensor whole;
  mega_whole(x->m, t, &whole);
  const struct mega_tensor *of = t->like ? &x->m->tensor[t->like - 1] : NULL;
  if (of && of->rank == t->rank && !memcmp(of->dim, whole.dim, sizeof of->dim) && of->type == t->type && of->kind == t->kind && !of->shard.n)
    return OK;
  return err_set(x->e, ERR_MEGA, at, "%.40s is not a tensor that this tensor can be a part of", id);
}

static int tensor(struct mega_text *x, const char *id, struct loc at)
{
  struct mega_tensor t = {.name = id};
  const char *type, *kind;
  struct loc where;
  TRY(name(x, "a type", &type, &where));
  if ((t.type = mega_type_find(type)) < 0) return err_set(x->e, ERR_DTYPE, where, "%.40s is not a type of tensors", type);
  TRY(expect(x, '[', "`[`"));
  do {
    if (t.rank == MEGA_DIMS) return err_set(x->e, ERR_LIMIT, x->t.at, "a tensor has at most %d dimensions", MEGA_DIMS);
    TRY(dimension(x, &t.dim[t.rank++]));
  } while (take(x, ','));
  TRY(expect(x, ']', "`,` or `]`"));
  TRY(name(x, "a kind of tensor", &kind, &where));
  struct near near = near_start(kind);
  int k = 0;
  for (; k < MEGA_KINDS && strcmp(mega_kinds[k].name, kind); k++) near_try(&near, mega_kinds[k].name);
  if (k == MEGA_KINDS) {
    err_set(x->e, ERR_NAME, where, "%.40s is not a kind of tensor", kind);
    return err_hint(x->e, near.best ? "did you mean %s?" : "the kinds are input, weights, state, activation and output%s",
                    near.best ? near.best : ""),
           USER;
  }
  t.kind = (enum mega_kind)k;
  if (take_word(x, "versions")) TRY(small_integer(x, 1, MEGA_MOST_VERSIONS, &t.versions));
  t.shared = take_word(x, "shared");
  if (take_word(x, "split")) TRY(split(x, &t));
  if (take_word(x, "like")) TRY(like(x, &t));
  return mega_tensor_add(x->m, &t, at, x->e);
}

// ---- operators ----

static int arguments(struct mega_text *x, struct mega_op *op, const struct mega_spec *spec, bool writes)
{
  for (int a = 0, any = 0; a < spec->nargs; a++) {
    const char *id;
    struct loc at;
    if (spec->writes[a] != writes) continue;
    if (any++) TRY(expect(x, ',', "`,` and the next tensor of the layer"));
    TRY(name(x, "a tensor", &id, &at));
    if ((op->arg[a] = mega_tensor_find(x->m, id)) >= 0) continue;
    struct near near = near_start(id);
    for (int i = 0; i < x->m->ntensors; i++) near_try(&near, x->m->tensor[i].name);
    err_set(x->e, ERR_NAME, at, "operator %.40s: there is no tensor %.40s", op->name, id);
    if (near.best) err_hint(x->e, "did you mean %s?", near.best);
    return USER;
  }
  return OK;
}

static int attribute(struct mega_text *x, struct mega_op *op, const struct mega_spec *spec)
{
  do {
    const char *id;
    struct loc at;
    int a = 0;
    TRY(name(x, "an attribute", &id, &at));
    while (a < MEGA_ATTR_COUNT && (strcmp(mega_attr_names[a], id) || !(spec->attrs >> a & 1))) a++;
    if (a == MEGA_ATTR_COUNT) return err_set(x->e, ERR_ATTRIBUTE, at, "layer %s has no attribute %.40s", op->layer->name, id);
    TRY(expect(x, '=', "`=`"));
    if (x->t.kind != TOK_NUMBER) return unexpected(x, "a number");
    op->attr[a] = x->t.number.real;
    next(x);
  } while (take(x, ','));
  return OK;
}

static int after(struct mega_text *x, struct mega_op *op, int *cap)
{
  struct mega_after a = {.kind = -1};
  const char *kind;
  TRY(name(x, "an operator", &a.op, &a.at));
  if (take(x, '[')) {
    TRY(expect(x, '-', "`-`"));
    TRY(small_integer(x, 1, MEGA_MOST_LAYERS, &a.layer_back));
    TRY(expect(x, ']', "`]`"));
  }
  if (take_word(x, "step")) {
    TRY(expect(x, '-', "`-`"));
    TRY(small_integer(x, 1, 1, &a.step_back));
  }
  if (x->t.kind == TOK_NAME) {
    struct loc at;
    TRY(name(x, "a kind of event", &kind, &at));
    for (a.kind = 0; a.kind < MEGA_SIGNALS && strcmp(mega_signals[a.kind].name, kind);) a.kind++;
    if (a.kind == MEGA_SIGNALS) return err_set(x->e, ERR_NAME, at, "%.40s is not a kind of event; the kinds are counter, flag and tagged", kind);
  }
  PUSH(x->mem, op->after, op->nafter, *cap) = a;
  return OK;
}

static int layer_of(struct mega_text *x, struct mega_op *op, struct mega_spec *spec)
{
  const char *id;
  struct loc at;
  char why[160];
  skip_lines(x);
  if (!take_word(x, "layer")) return unexpected(x, "`layer`");
  TRY(name(x, "a layer", &id, &at));
  if (!(op->layer = mega_layer_find(id))) {
    struct near near = near_start(id);
    for (int i = 0; i < mega_layer_count; i++) near_try(&near, mega_layers[i].name);
    err_set(x->e, ERR_MEGA, at, "operator %.40s: there is no layer %.40s", op->name, id);
    return err_hint(x->e, near.best ? "did you mean %s?" : "src/mega/layer.def lists the layers%s", near.best ? near.best : ""), USER;
  }
  CHECK(mega_spec_read(op->layer, spec, why) == OK);
  return OK;
}

static int clause(struct mega_text *x, struct mega_op *op, const struct mega_spec *spec, bool given[2], int *cap)
{
  if (take_word(x, "reads")) return given[0] = true, arguments(x, op, spec, false);
  if (take_word(x, "writes")) return given[1] = true, arguments(x, op, spec, true);
  if (take_word(x, "tiles")) return small_integer(x, 1, MEGA_MOST_TILES, &op->tiles);
  if (take_word(x, "with")) return attribute(x, op, spec);
  if (take_word(x, "after")) return after(x, op, cap);
  return unexpected(x, "reads, writes, tiles, with, after or `}`");
}

static int operator_of(struct mega_text *x)
{
  struct mega_op op = {0};
  struct mega_spec spec;
  bool given[2] = {false};
  int cap = 0;
  TRY(name(x, "the operator's name", &op.name, &op.at));
  if (take(x, '[')) {
    TRY(small_integer(x, 1, MEGA_MOST_LAYERS, &op.repeat));
    TRY(expect(x, ']', "`]`"));
  }
  TRY(expect(x, '{', "`{`"));
  TRY(layer_of(x, &op, &spec));
  for (skip_lines(x); !take(x, '}'); skip_lines(x)) TRY(clause(x, &op, &spec, given, &cap));
  if (!given[0] || !given[1])
    return err_set(x->e, ERR_MEGA, op.at, "operator %.40s does not say which tensors it %s", op.name, given[0] ? "writes" : "reads");
  for (int a = 0; a < MEGA_ATTR_COUNT; a++)
    if (spec.attrs >> a & 1 && a < MEGA_ATTR_rope_factor && !(op.attr[a] > 0))
      return err_set(x->e, ERR_ATTRIBUTE, op.at, "operator %.40s: layer %s needs %s", op.name, op.layer->name, mega_attr_names[a]);
  return mega_op_add(x->m, &op, x->e);
}

// ---- the model ----

static int header(struct mega_text *x)
{
  int64_t v;
  TRY(take_word(x, "mega") ? OK : unexpected(x, "`mega`"));
  TRY(name(x, "the model's name", &x->m->name, NULL));
  TRY(expect(x, '(', "`(`"));
  for (bool more = !take(x, ')'); more; more = !take(x, ')')) {
    bool rows = lex_is(&x->t, "rows");
    if (!take_word(x, "rows") && !take_word(x, "context")) return unexpected(x, "rows or context");
    TRY(expect(x, '=', "`=`"));
    TRY(integer(x, rows, rows ? MEGA_MOST_ROWS : MEGA_MOST_CONTEXT, &v));
    if (rows)
      x->m->rows = (int)v;
    else
      x->m->context = v;
    if (x->t.kind != ')') TRY(expect(x, ',', "`,` or `)`"));
  }
  if (x->s->rows > MEGA_MOST_ROWS) return err_set(x->e, ERR_OPTION, NOWHERE, "--rows is %d; 1 to %d are supported", x->s->rows, MEGA_MOST_ROWS);
  if (x->s->rows) x->m->rows = x->s->rows;
  if (x->s->context > MEGA_MOST_CONTEXT)
    return err_set(x->e, ERR_OPTION, NOWHERE, "--context is %lld; 0 to %d are supported", (long long)x->s->context, MEGA_MOST_CONTEXT);
  if (x->s->context >= 0) x->m->context = x->s->context;
  return expect(x, '{', "`{`");
}

// The extents in a text are those of one rank, so the text fixes the size of the world.
static int world(struct mega_text *x)
{
  struct loc at = x->t.at;
  if (x->m->ntensors) return err_set(x->e, ERR_MEGA, at, "`world` must come before all tensors");
  TRY(small_integer(x, 1, MEGA_MOST_WORLD, &x->m->world));
  return OK;
}

static int statement(struct mega_text *x)
{
  const char *id;
  struct loc at;
  if (take_word(x, "workers")) return small_integer(x, 1, MEGA_MOST_WORKERS, &x->m->workers);
  if (take_word(x, "operator")) return operator_of(x);
  if (take_word(x, "world")) return world(x);
  if (take_word(x, "pipeline")) {
    TRY(small_integer(x, 1, 4096, &x->m->stages));
    if (!take_word(x, "x")) return unexpected(x, "`x`");
    return small_integer(x, 16, 1 << 20, &x->m->stage_bytes);
  }
  TRY(name(x, "a tensor, operator, workers, pipeline or `}`", &id, &at));
  TRY(expect(x, ':', "`:`"));
  return tensor(x, id, at);
}

int mega_parse(struct arena *mem, const char *text, size_t n, const char *file, const struct mega_sizes *s, struct mega_model **out, struct err *e)
{
  struct mega_text x = {.mem = mem, .m = NEW(mem, struct mega_model), .s = s, .e = e};
  if (n > FRONT_BYTES) return err_set(e, ERR_LIMIT, (struct loc){file, 0, 0}, "a model has at most %d bytes", FRONT_BYTES);
  *x.m = (struct mega_model){.rows = 1, .workers = MEGA_WORKERS, .stages = MEGA_STAGES, .stage_bytes = MEGA_STAGE, .world = 1};
  lex_open(&x.lex, mem, text, n, file);
  next(&x), skip_lines(&x);
  TRY(header(&x));
  for (skip_lines(&x); !take(&x, '}'); skip_lines(&x)) TRY(statement(&x));
  skip_lines(&x);
  if (x.t.kind != TOK_END) return unexpected(&x, "the end of the file");
  if (s->workers > MEGA_MOST_WORKERS) return err_set(e, ERR_OPTION, NOWHERE, "--workers is %d; 1 to %d are supported", s->workers, MEGA_MOST_WORKERS);
  if (s->workers) x.m->workers = s->workers;
  if (s->world && s->world != x.m->world) {
    err_set(e, ERR_OPTION, NOWHERE, "--world is %d, but the text is for a world of %d", s->world, x.m->world);
    return err_hint(e, "a text has the extents of one rank; --world can only split a configuration"), USER;
  }
  if (s->stages) x.m->stages = s->stages;
  x.m->input_bytes = s->input_bytes;
  *out = x.m;
  return mega_model_check(x.m, e);
}
