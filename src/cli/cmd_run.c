// mica run: a program or muGraph by the interpreter or compiled, on random inputs or on arrays from files.
#include "cli/cli.h"
#include "front/parse.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cli_run {
  struct cli *c;
  struct graph *g;          // without composites
  const struct graph *rank; // for several devices, the graph of one rank; or NULL
  int nin, nout, *in, *out;
  void **inputs, **outputs; // in the engine's number type; doubles for cpu
  enum domain domain;
  bool cpu, ranks; // cpu: compiled; ranks: one thread for each rank
  struct field *field;
  struct extent_values extents; // from the given arrays
  struct shape *shape;          // of outputs
};

static int choose_engine(struct cli_run *r)
{
  static const char *const names[] = {"f64", "f32", "field", "cpu", "ranks"};
  struct near near = near_start(r->c->engine);
  for (int i = 0; i < (int)COUNT(names); i++) {
    near_try(&near, names[i]);
    if (strcmp(names[i], r->c->engine)) continue;
    r->cpu = i >= 3, r->ranks = i == 4;
    r->domain = r->cpu ? DOM_F64 : (enum domain)i;
    return OK;
  }
  return option_unknown(r->c, "engine", r->c->engine, near.best, "the engines are f64, f32, field, cpu and ranks");
}

// ---- inputs ----

static const struct tensor *tensor(const struct cli_run *r, int t) { return &r->g->tensors[t]; }

static const char *input_name(const struct cli_run *r, int i)
{
  const char *name = tensor(r, r->in[i])->name;
  return name ? name : arena_printf(&r->c->mem, "in%d", i);
}

static int unknown_input(struct cli_run *r, const char *name, int n)
{
  struct err *e = &r->c->err;
  struct str all = {0};
  for (int i = 0; i < r->nin; i++) str_add(&all, "%s%s", i ? ", " : "", input_name(r, i));
  err_set(e, ERR_NAME, NOWHERE, "the program has no input %.*s", MIN(n, 80), name);
  err_hint(e, r->nin == 1 ? "its input is %.400s" : "its inputs are %.400s", str_text(&all));
  str_free(&all);
  return (int)e->status;
}

static bool number_given(const char *text, int64_t *out)
{
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return !errno && end != text && !*end;
}

// Copies an array to the first elements of an input; the others keep their random values.
static void take_elements(struct cli_run *r, int i, const struct shape *s, const double *data)
{
  const int64_t n = shape_size(s);
  const void *from = data;
  if (r->domain == DOM_F32) {
    float *narrow = NEWS(&r->c->mem, float, n);
    for (int64_t k = 0; k < n; k++) narrow[k] = (float)data[k];
    from = narrow;
  }
  extents_spread(&tensor(r, r->in[i])->shape, s, domain_bytes(r->domain), r->inputs[i], from);
}

static int read_input(struct cli_run *r, const char *arg)
{
  const char *eq = strchr(arg, '=');
  struct err *e = &r->c->err;
  if (!eq) return err_set(e, ERR_OPTION, NOWHERE, "%.80s gives no input; write NAME=FILE.npy", arg);
  int i = 0;
  const char *wanted = arena_printf(&r->c->mem, "%.*s", (int)(eq - arg), arg);
  while (i < r->nin && strcmp(input_name(r, i), wanted)) i++;
  if (i == r->nin) return unknown_input(r, arg, (int)(eq - arg));
  const struct tensor *t = tensor(r, r->in[i]);
  struct shape shape;
  double *data;
  int64_t value;
  if (t->extent && number_given(eq + 1, &value)) return extents_set(&r->extents, t, value, "the command line", e);
  TRY(npy_read(&r->c->mem, eq + 1, &shape, &data, e));
  if (!extent_tells(t) && !shape_eq(&shape, &t->shape)) {
    char want[128], is[128];
    shape_text(want, &t->shape), shape_text(is, &shape);
    int s = err_set(e, ERR_SHAPE, NOWHERE, "input %s is %s, and %.200s has %s", input_name(r, i), want, eq + 1, is);
    err_hint(e, "give an array of this shape, or set the sizes of the program by --set");
    return s;
  }
  TRY(extents_take(&r->extents, r->g, t, &shape, e));
  struct tensor given = *t;
  given.shape = shape;
  TRY(range_check_doubles(&given, data, e));
  if (t->extent) return extents_set(&r->extents, t, (int64_t)*data, eq + 1, e);
  return take_elements(r, i, &shape, data), OK;
}

// Extents that neither an array nor a number gives are random, like inputs.
static void fill_extents(struct cli_run *r)
{
  for (int i = 0; i < r->nin; i++) {
    const int k = tensor(r, r->in[i])->extent;
    if (!k || r->domain == DOM_FIELD) continue;
    if (!r->extents.value[k]) r->extents.value[k] = (int64_t)(r->domain == DOM_F32 ? (double)*(float *)r->inputs[i] : *(double *)r->inputs[i]);
    const double value = (double)r->extents.value[k];
    take_elements(r, i, &(struct shape){0}, &value);
  }
}

static int make_inputs(struct cli_run *r)
{
  struct arena *mem = &r->c->mem;
  r->nin = graph_inputs(r->g, NULL), r->nout = graph_outputs(r->g, NULL);
  graph_inputs(r->g, r->in = NEWS(mem, int, r->nin));
  graph_outputs(r->g, r->out = NEWS(mem, int, r->nout));
  r->inputs = NEWS(mem, void *, r->nin), r->outputs = NEWS(mem, void *, r->nout);
  if (r->domain == DOM_FIELD) field_open(r->field = NEW(mem, struct field), primes_draw(PRIMES_TEST, r->c->seed, 0, NULL), r->c->seed);
  eval_random(mem, r->g, r->domain, r->field, r->c->seed, r->inputs);
  if (r->domain == DOM_FIELD && r->c->nargs > 1)
    return err_set(&r->c->err, ERR_OPTION, NOWHERE, "arrays are real numbers; the field engine takes random elements only");
  for (int i = 1; i < r->c->nargs; i++) TRY(read_input(r, r->c->args[i]));
  fill_extents(r);
  return OK;
}

// ---- running ----

static int run_module(struct cli_run *r, struct module *m, struct buffers *b)
{
  for (int i = 0; i < r->nin; i++) {
    const struct tensor *t = tensor(r, r->in[i]);
    cli_encode(t->dtype, r->inputs[i], b->in[i], shape_size(&t->shape));
  }
  if (r->ranks) module_as_ranks(m, ranks_form_of(&r->c->mem, r->rank));
  TRY(module_failed(module_call(m, b->in, b->out), r->g->name ? r->g->name : "the program", &r->c->err));
  for (int i = 0; i < r->nout; i++) {
    const struct tensor *t = tensor(r, r->out[i]);
    r->outputs[i] = tensor_room(&r->c->mem, t, sizeof(double));
    cli_decode(t->dtype, b->out[i], r->outputs[i], shape_size(&t->shape));
  }
  return OK;
}

static int no_ranks(struct cli_run *r)
{
  err_set(&r->c->err, ERR_WORLD, NOWHERE, "%s is a program of one device, which has no ranks", r->g->name ? r->g->name : "this");
  return err_hint(&r->c->err, "--engine cpu runs it"), (int)r->c->err.status;
}

static int run_cpu(struct cli_run *r)
{
  struct cli *c = r->c;
  struct module *m;
  struct buffers *b;
  TRY(cli_compiled(c, r->g, r->ranks ? r->rank : NULL, r->g->name ? r->g->name : "program", &m));
  int status = buffers_open(r->g, c->seed, &b, &c->err);
  if (status == OK) {
    status = run_module(r, m, b);
    buffers_close(b);
  }
  module_close(m);
  return status;
}

// ---- results ----

// Elements beyond run-time extents do not exist.
static void results_cut(struct cli_run *r)
{
  r->shape = NEWS(&r->c->mem, struct shape, r->nout + 1);
  for (int i = 0; i < r->nout; i++) {
    const struct tensor *t = tensor(r, r->out[i]);
    const size_t bytes = domain_bytes(r->domain);
    r->shape[i] = extents_shape(&r->extents, t);
    void *all = r->outputs[i];
    if (shape_eq(&r->shape[i], &t->shape)) continue;
    r->outputs[i] = tensor_room(&r->c->mem, t, bytes);
    extents_gather(&t->shape, &r->shape[i], bytes, r->outputs[i], all);
  }
}

static json_t *summary(const struct cli_run *r, int i)
{
  const struct tensor *t = tensor(r, r->out[i]);
  const struct shape *is = &r->shape[i];
  int64_t n = shape_size(is);
  char hash[24];
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hash_bytes(r->outputs[i], domain_bytes(r->domain) * (size_t)n, 0));
  json_t *shape = json_array(), *v = json_pack("{s:s, s:s}", "name", t->name ? t->name : "", "hash", hash);
  for (int k = 0; k < is->n; k++) json_array_append_new(shape, json_integer(is->d[k]));
  json_object_set_new(v, "shape", shape);
  if (r->domain == DOM_FIELD) return v;
  double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
  int64_t odd = 0;
  for (int64_t k = 0; k < n; k++) {
    double x = r->domain == DOM_F32 ? (double)((float *)r->outputs[i])[k] : ((double *)r->outputs[i])[k];
    if (!isfinite(x))
      odd++;
    else
      sum += x, squares += x * x, least = fmin(least, x), most = fmax(most, x);
  }
  if (odd < n) {
    json_object_set_new(v, "mean", json_real(sum / (double)(n - odd)));
    json_object_set_new(v, "rms", json_real(sqrt(squares / (double)(n - odd))));
    json_object_set_new(v, "least", json_real(least));
    json_object_set_new(v, "most", json_real(most));
  }
  json_object_set_new(v, "not_finite", json_integer(odd));
  return v;
}

static void print_summary(const json_t *v)
{
  struct str line = {0};
  const char *key;
  json_t *x;
  json_object_foreach((json_t *)v, key, x)
  {
    if (json_is_real(x))
      str_add(&line, "  %s %.6g", key, json_real_value(x));
    else if (json_is_integer(x) && json_integer_value(x))
      str_add(&line, "  %s %lld", key, (long long)json_integer_value(x));
    else if (!strcmp(key, "hash"))
      str_add(&line, "  hash %s", json_string_value(x));
    else if (json_is_string(x))
      str_add(&line, "%s", json_string_value(x));
    else if (json_is_array(x)) {
      str_add(&line, "  [");
      for (size_t i = 0; i < json_array_size(x); i++) str_add(&line, "%s%lld", i ? ", " : "", (long long)json_integer_value(json_array_get(x, i)));
      str_add(&line, "]");
    }
  }
  puts(str_text(&line));
  str_free(&line);
}

static int save_output(struct cli_run *r, int i)
{
  struct cli *c = r->c;
  const struct tensor *t = tensor(r, r->out[i]);
  double *x = r->outputs[i];
  int64_t n = shape_size(&r->shape[i]);
  if (r->domain == DOM_FIELD) return err_set(&c->err, ERR_OPTION, NOWHERE, "field elements are not saved; use another engine");
  if (r->domain == DOM_F32) {
    x = tensor_room(&c->mem, t, sizeof(double));
    for (int64_t k = 0; k < n; k++) x[k] = (double)((float *)r->outputs[i])[k];
  }
  const char *name = t->name ? t->name : arena_printf(&c->mem, "out%d", i);
  return npy_write(arena_printf(&c->mem, "%s/%s.npy", c->out, name), &r->shape[i], x, &c->err);
}

static int report(struct cli_run *r)
{
  struct cli *c = r->c;
  json_t *list = json_array();
  for (int i = 0; i < r->nout; i++) {
    json_t *v = summary(r, i);
    json_array_append_new(list, v);
    if (output_wants_text(c)) print_summary(v);
  }
  json_t *root =
      json_pack("{s:s, s:s, s:I, s:o}", "program", r->g->name ? r->g->name : "", "engine", c->engine, "seed", (json_int_t)c->seed, "outputs", list);
  int status = output_json(c, root);
  json_decref(root);
  for (int i = 0; i < r->nout && status == OK && c->out; i++) status = save_output(r, i);
  return status;
}

int cmd_run(struct cli *c)
{
  struct cli_run r = {.c = c};
  struct graph *g;
  if (cli_is_onnx(c->args[0])) return cli_run_onnx(c);
  TRY(choose_engine(&r));
  if (c->out) TRY(output_folder(c->out, &c->err));
  TRY(cli_load(c, c->args[0], &g));
  TRY(graph_expand(&c->mem, g, true, &g, &c->err));
  TRY(graph_unfold(&c->mem, g, &r.g, &c->err));
  r.rank = g->world > 1 ? g : NULL;
  if (r.ranks && !r.rank) return no_ranks(&r);
  TRY(make_inputs(&r));
  if (r.cpu)
    TRY(run_cpu(&r));
  else
    TRY(eval_run(&c->mem, r.g, r.domain, r.field, r.inputs, r.outputs, cli_stop, &c->err));
  results_cut(&r);
  return report(&r);
}
