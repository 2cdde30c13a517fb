// mica run of an ONNX model: its programs by the interpreter or compiled, and between them the left nodes by their simple functions. Reads a folder
// from `mica import --out`, and uses its optimized graphs if there are any.
#include "cli/cli.h"
#include "export/folder.h"
#include "front/front.h"
#include "onnx/onnx.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct model_run {
  struct cli *c;
  struct onnx_model *m;
  const char *folder;           // of optimized graphs, or NULL
  const struct onnx_cells **at; // for each value
  enum domain domain;
  bool cpu;
};

static int choose(struct model_run *r)
{
  static const char *const names[] = {"f64", "f32", "cpu"};
  for (int i = 0; i < (int)COUNT(names); i++)
    if (!strcmp(names[i], r->c->engine)) return r->cpu = i == 2, r->domain = i == 1 ? DOM_F32 : DOM_F64, OK;
  return option_unknown(r->c, "engine for models", r->c->engine, NULL, "the engines are f64, f32 and cpu");
}

// ---- inputs ----

static int input_of(const struct model_run *r, const char *arg, const char **file)
{
  for (int i = 0; i < r->m->ninputs; i++) {
    const char *name = r->m->values[r->m->inputs[i]].name;
    size_t n = strlen(name);
    if (!strncmp(arg, name, n) && arg[n] == '=') return *file = arg + n + 1, r->m->inputs[i];
  }
  return -1;
}

static int read_input(struct model_run *r, const char *arg)
{
  const char *file;
  struct onnx_cells *x;
  struct err *e = &r->c->err;
  int v = input_of(r, arg, &file);
  if (v < 0) return err_set(e, ERR_NAME, NOWHERE, "%.80s gives no input of the model; write NAME=FILE.npy", arg);
  const struct onnx_value *value = &r->m->values[v];
  TRY(npy_read_cells(&r->c->mem, file, &x, e));
  if (onnx_type_kind(x->type) != onnx_type_kind(value->type))
    return err_set(e, ERR_DTYPE, NOWHERE, "input %.100s is %s, and %.200s holds %s", value->name, onnx_type_name(value->type), file,
                   onnx_type_name(x->type));
  if (!shape_eq(&x->shape, &value->shape)) {
    char want[128], is[128];
    shape_text(want, &value->shape), shape_text(is, &x->shape);
    int s = err_set(e, ERR_SHAPE, NOWHERE, "input %.100s is %s, and %.200s has %s", value->name, want, file, is);
    err_hint(e, "give an array of this shape, or set the sizes of the program by --set");
    return s;
  }
  x->type = value->type;
  onnx_cells_round(x);
  r->at[v] = x;
  return OK;
}

// Normal numbers; integers are 0 or 1, which are valid indices of most tables.
static int random_input(struct model_run *r, int v)
{
  const struct onnx_value *value = &r->m->values[v];
  struct rng rng = {hash_mix(r->c->seed, (uint64_t)v)};
  if (onnx_type_kind(value->type) == NEITHER)
    return err_set(&r->c->err, ERR_DTYPE, NOWHERE, "input %.100s is %s", value->name, onnx_type_name(value->type));
  struct onnx_cells *x = onnx_cells_new(&r->c->mem, value->type, &value->shape);
  for (int64_t i = 0, n = onnx_elements(&x->shape); i < n; i++) {
    if (onnx_type_kind(x->type) == REAL)
      x->f[i] = rng_normal(&rng);
    else
      x->i[i] = (int64_t)rng_below(&rng, 2);
  }
  onnx_cells_round(x);
  r->at[v] = x;
  return OK;
}

// Elements of a known value; weights are read at their first use.
static const struct onnx_cells *cells_of(struct model_run *r, int v)
{
  const struct onnx_value *value = &r->m->values[v];
  if (r->at[v] || value->known) return r->at[v] ? r->at[v] : value->known;
  if (!value->init || onnx_type_kind(value->type) == NEITHER) return NULL;
  struct onnx_cells *x = onnx_cells_new(&r->c->mem, value->type, &value->shape);
  if (onnx_elements(&x->shape)) onnx_cells_read(x, value->init->raw);
  return r->at[v] = x;
}

// ---- programs ----

static bool signatures_agree(const struct graph *a, const struct graph *b)
{
  int n = graph_inputs(a, NULL), k = graph_outputs(a, NULL), *x = malloc(sizeof(int) * (size_t)(2 * (n + k) + 1)), *y = x + n + k;
  bool same = x && n == graph_inputs(b, NULL) && k == graph_outputs(b, NULL);
  if (same) graph_inputs(a, x), graph_outputs(a, x + n), graph_inputs(b, y), graph_outputs(b, y + n);
  for (int i = 0; i < n + k && same; i++)
    same = a->tensors[x[i]].dtype == b->tensors[y[i]].dtype && shape_eq(&a->tensors[x[i]].shape, &b->tensors[y[i]].shape);
  free(x);
  return same;
}

// The program, or its optimized graph.
static int graph_of(struct model_run *r, const struct onnx_program *p, struct graph **g)
{
  struct cli *c = r->c;
  struct graph *found;
  const char *path = r->folder ? arena_printf(&c->mem, "%s/%s", r->folder, p->name) : NULL;
  struct folder_files files;
  if (!path || access(path, R_OK)) return graph_expand(&c->mem, p->g, true, g, &c->err);
  TRY(folder_read(&c->mem, path, &files, &c->err));
  const struct folder_file *text = folder_find(&files, "graph.mica");
  if (!text) return err_set(&c->err, ERR_CHANGED, NOWHERE, "%s has no graph.mica", path);
  TRY(load_text(&c->mem, text->bytes, arena_printf(&c->mem, "%s/graph.mica", path), 0, NULL, &found, &c->err));
  if (!signatures_agree(found, p->g)) return err_set(&c->err, ERR_MISMATCH, NOWHERE, "%s is not of this model: import it again", path);
  return graph_expand(&c->mem, found, true, g, &c->err);
}

static int run_compiled(struct model_run *r, struct graph *g, const char *name, void **in, double **out)
{
  struct cli *c = r->c;
  struct module *m;
  struct buffers *b;
  int nin = graph_inputs(g, NULL), nout = graph_outputs(g, NULL), *t = NEWS(&c->mem, int, MAX(nin, nout) + 1);
  TRY(cli_compiled(c, g, NULL, name, &m));
  int status = buffers_open(g, c->seed, &b, &c->err);
  if (status != OK) return module_close(m), status;
  graph_inputs(g, t);
  for (int i = 0; i < nin; i++) cli_encode(g->tensors[t[i]].dtype, in[i], b->in[i], shape_size(&g->tensors[t[i]].shape));
  if (module_call(m, b->in, b->out)) status = err_set(&c->err, ERR_MEMORY, NOWHERE, "the kernels could not get their memory");
  graph_outputs(g, t);
  for (int i = 0; i < nout && status == OK; i++) cli_decode(g->tensors[t[i]].dtype, b->out[i], out[i], shape_size(&g->tensors[t[i]].shape));
  buffers_close(b);
  module_close(m);
  return status;
}

static int run_interpreted(struct model_run *r, struct graph *g, void **in, double **out)
{
  struct cli *c = r->c;
  int nin = graph_inputs(g, NULL), nout = graph_outputs(g, NULL), *t = NEWS(&c->mem, int, MAX(nin, nout) + 1);
  void **results = NEWS(&c->mem, void *, nout + 1);
  graph_inputs(g, t);
  for (int i = 0; i < nin && r->domain == DOM_F32; i++) {
    int64_t n = shape_size(&g->tensors[t[i]].shape);
    float *x = NEWS(&c->mem, float, n);
    for (int64_t k = 0; k < n; k++) x[k] = (float)((double *)in[i])[k];
    in[i] = x;
  }
  TRY(eval_run(&c->mem, g, r->domain, NULL, in, results, cli_stop, &c->err));
  graph_outputs(g, t);
  for (int i = 0; i < nout; i++)
    for (int64_t k = 0, n = shape_size(&g->tensors[t[i]].shape); k < n; k++)
      out[i][k] = r->domain == DOM_F32 ? (double)((float *)results[i])[k] : ((double *)results[i])[k];
  return OK;
}

// Inputs become float64. Integers must be in the ranges of the program's inputs.
static int inputs_of(struct model_run *r, const struct onnx_program *p, const struct graph *g, void **in)
{
  int *t = NEWS(&r->c->mem, int, p->nin + 1);
  graph_inputs(g, t);
  for (int i = 0; i < p->nin; i++) {
    const struct onnx_cells *c = cells_of(r, p->in[i]);
    in[i] = onnx_cells_doubles(&r->c->mem, c);
    if (onnx_type_kind(c->type) == WHOLE) TRY(range_check_doubles(&g->tensors[t[i]], in[i], &r->c->err));
  }
  return OK;
}

static int run_program(struct model_run *r, const struct onnx_program *p)
{
  struct arena *mem = &r->c->mem;
  struct graph *g;
  void **in = NEWS(mem, void *, p->nin + 1);
  double **out = NEWS(mem, double *, p->nout + 1);
  struct onnx_cells **made = NEWS(mem, struct onnx_cells *, p->nout + 1);
  TRY(graph_of(r, p, &g));
  TRY(inputs_of(r, p, g, in));
  for (int i = 0; i < p->nout; i++) {
    const struct onnx_value *v = &r->m->values[p->out[i]];
    r->at[p->out[i]] = made[i] = onnx_cells_new(mem, v->type, &v->shape), out[i] = made[i]->f;
  }
  TRY(r->cpu ? run_compiled(r, g, p->name, in, out) : run_interpreted(r, g, in, out));
  for (int i = 0; i < p->nout; i++) onnx_cells_from_doubles(made[i]); // nodes compare stored values
  return OK;
}

// ---- nodes ----

static int run_node(struct model_run *r, int node)
{
  const struct onnx_node *n = &r->m->nodes[node];
  struct arena *mem = &r->c->mem;
  struct onnx_host h = {.mem = mem, .n = n, .row = n->row, .nin = n->nin, .most = (int64_t)1 << 31};
  h.in = NEWS(mem, const struct onnx_cells *, n->nin + 1), h.out = NEWS(mem, struct onnx_cells *, n->nout + 1);
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0) h.in[k] = cells_of(r, n->in[k]);
  h.captured = NEWS(mem, const struct onnx_cells *, n->ncaptured + 1), h.runs = true;
  for (int k = 0; k < n->ncaptured; k++) {
    int v = onnx_find(r->m, n->captured[k]);
    if (v >= 0) h.captured[k] = cells_of(r, v);
  }
  if (!onnx_host_run(&h)) return onnx_bad(r->m, &r->c->err, "node %s: %s", onnx_node_title(mem, r->m, node), h.why);
  for (int k = 0; k < n->nout; k++) {
    const struct onnx_value *v = n->out[k] < 0 ? NULL : &r->m->values[n->out[k]];
    if (!v) continue;
    if (v->shaped && (v->type != h.out[k]->type || !shape_eq(&v->shape, &h.out[k]->shape)))
      return onnx_bad(r->m, &r->c->err, "node %s: `%.100s` is not what the model says of its type and shape", onnx_node_title(mem, r->m, node),
                      v->name);
    r->at[n->out[k]] = h.out[k];
  }
  return OK;
}

static int supported(struct model_run *r)
{
  for (int i = 0; i < r->m->nnodes; i++) {
    const struct onnx_node *n = &r->m->nodes[i];
    if (n->fate != ONNX_UNSUPPORTED || !n->used) continue;
    onnx_bad(r->m, &r->c->err, "node %s cannot be run: %s", onnx_node_title(&r->c->mem, r->m, i), n->why);
    err_hint(&r->c->err, "`mica import` lists all that is unsupported");
    return USER;
  }
  return OK;
}

static int run_steps(struct model_run *r)
{
  for (int i = 0; i < r->m->nsteps; i++) {
    const struct onnx_step *s = &r->m->steps[i];
    if (*cli_stop) return err_set(&r->c->err, ERR_STOPPED, NOWHERE, "stopped");
    TRY(s->program >= 0 ? run_program(r, &r->m->programs[s->program]) : run_node(r, s->node));
  }
  return OK;
}

// ---- results ----

static json_t *summary(const struct onnx_value *v, const struct onnx_cells *x)
{
  double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
  int64_t n = onnx_elements(&x->shape), odd = 0;
  json_t *shape = json_array();
  for (int k = 0; k < x->shape.n; k++) json_array_append_new(shape, json_integer(x->shape.d[k]));
  for (int64_t k = 0; k < n; k++) {
    double one = onnx_type_kind(x->type) == REAL ? x->f[k] : (double)x->i[k];
    if (!isfinite(one))
      odd++;
    else
      sum += one, squares += one * one, least = fmin(least, one), most = fmax(most, one);
  }
  json_t *o = json_pack("{s:s, s:s, s:o, s:I}", "name", v->name, "type", onnx_type_name(x->type), "shape", shape, "not_finite", (json_int_t)odd);
  if (odd == n) return o;
  json_object_set_new(o, "mean", json_real(sum / (double)(n - odd))), json_object_set_new(o, "rms", json_real(sqrt(squares / (double)(n - odd))));
  json_object_set_new(o, "least", json_real(least)), json_object_set_new(o, "most", json_real(most));
  return o;
}

// File names: characters other than letters and digits become "_"; a number distinguishes equal names.
static const char *file_of(struct model_run *r, int i)
{
  char *name = arena_printf(&r->c->mem, "%.100s", r->m->values[r->m->outputs[i]].name);
  bool changed = false;
  for (char *p = name; *p; p++)
    if (!isalnum((unsigned char)*p) && *p != '_' && *p != '-') *p = '_', changed = true;
  return changed ? arena_printf(&r->c->mem, "%s_%d.npy", name, i) : arena_printf(&r->c->mem, "%s.npy", name);
}

static int report(struct model_run *r)
{
  struct cli *c = r->c;
  json_t *list = json_array(),
         *root = json_pack("{s:s, s:s, s:I, s:i, s:i, s:o}", "model", r->m->path, "engine", c->engine, "seed", (json_int_t)c->seed, "programs",
                           r->m->nprograms, "nodes", r->m->nsteps - r->m->nprograms, "outputs", list);
  int status = OK;
  for (int i = 0; i < r->m->noutputs && status == OK; i++) {
    const struct onnx_value *v = &r->m->values[r->m->outputs[i]];
    const struct onnx_cells *x = cells_of(r, r->m->outputs[i]);
    json_t *o = summary(v, x);
    json_array_append_new(list, o);
    if (c->out) json_object_set_new(o, "file", json_string(file_of(r, i)));
    if (output_wants_text(c))
      printf("%s  mean %.6g  rms %.6g\n", v->name, json_number_value(json_object_get(o, "mean")), json_number_value(json_object_get(o, "rms")));
    if (c->out) status = npy_write_cells(arena_printf(&c->mem, "%s/%s", c->out, file_of(r, i)), x, &c->err);
  }
  if (status == OK) status = output_json(c, root);
  json_decref(root);
  return status;
}

static int run(struct model_run *r)
{
  r->at = NEWS(&r->c->mem, const struct onnx_cells *, r->m->nvalues + 1);
  TRY(supported(r));
  for (int i = 1; i < r->c->nargs; i++) TRY(read_input(r, r->c->args[i]));
  for (int i = 0; i < r->m->ninputs; i++)
    if (!r->at[r->m->inputs[i]]) TRY(random_input(r, r->m->inputs[i]));
  TRY(run_steps(r));
  for (int i = 0; i < r->m->noutputs; i++)
    if (!cells_of(r, r->m->outputs[i])) return onnx_bad(r->m, &r->c->err, "output `%.100s` was not computed", r->m->values[r->m->outputs[i]].name);
  return report(r);
}

// The model and the settings that a manifest names.
static int from_manifest(struct cli *c, const char *folder, const char **model, struct setting **set, int *nset)
{
  const char *path = arena_printf(&c->mem, "%s/manifest.json", folder), *key;
  json_t *root = json_load_file(path, 0, NULL), *v, *settings = json_object_get(root, "set");
  const char *kind = json_string_value(json_object_get(root, "kind")), *said = json_string_value(json_object_get(root, "path"));
  *nset = 0, *set = NEWS(&c->mem, struct setting, json_object_size(settings) + 1);
  json_object_foreach(settings, key, v)(*set)[(*nset)++] = (struct setting){arena_strdup(&c->mem, key), json_integer_value(v)};
  bool good = kind && !strcmp(kind, "onnx") && said;
  *model = good ? arena_strdup(&c->mem, said) : NULL;
  json_decref(root);
  return good ? OK : err_set(&c->err, ERR_JSON, (struct loc){path, 0, 0}, "this is no manifest of a model");
}

int cli_run_onnx(struct cli *c)
{
  struct model_run r = {.c = c};
  struct setting *set;
  const char *path = c->args[0];
  int nset = c->nset;
  if (c->dtype) return err_set(&c->err, ERR_OPTION, NOWHERE, "--dtype: a model says the types of its tensors itself");
  TRY(choose(&r));
  if (c->out) TRY(output_folder(c->out, &c->err));
  TRY(load_settings(&c->mem, c->nset, c->set, &set, &c->err));
  if (!onnx_looks(path) && nset) return err_set(&c->err, ERR_OPTION, NOWHERE, "the folder %s has its settings: --set is for models", path);
  if (!onnx_looks(path)) {
    r.folder = path;
    TRY(from_manifest(c, r.folder, &path, &set, &nset));
  }
  int status = onnx_open(&c->mem, path, nset, set, &r.m, &c->err);
  if (status == OK) status = run(&r);
  onnx_close(r.m);
  return status;
}
