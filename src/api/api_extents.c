// include/mica.h: run-time extents. Kernels take arrays whose shapes are the bounds. Arrays shaped by the values are copied into such arrays, with
// padding of 0, or of a whole number within the range.
#include "api/module.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

// ---- the list of extents ----

static int holder(const struct graph *g, int extent)
{
  int number = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_INPUT) continue;
    if (g->tensors[g->nodes[i].out].extent == extent) return number;
    number++;
  }
  return -1;
}

static int program_extent(const struct mica_program *p, int (*list)(const struct graph *, int *), int i, int dim)
{
  struct arena tmp = {0};
  const int n = list(p->g, NULL);
  int *t = NEWS(&tmp, int, n + 1), extent = 0;
  list(p->g, t);
  if (i >= 0 && i < n && dim >= 0 && dim < p->g->tensors[t[i]].shape.n) extent = p->g->tensors[t[i]].runs[dim];
  arena_close(&tmp);
  return extent ? holder(p->g, extent) : -1;
}

int mica_program_input_extent(const struct mica_program *p, int i, int dim) { return program_extent(p, graph_inputs, i, dim); }
int mica_program_output_extent(const struct mica_program *p, int i, int dim) { return program_extent(p, graph_outputs, i, dim); }

static int module_extent(const struct mica_module *x, int n, const struct mica_tensor *t, const struct package_extents *of, int i, int dim)
{
  if (i < 0 || i >= n || dim < 0 || dim >= t[i].ndim || !of[i].runs[dim]) return -1;
  for (int k = 0; k < x->p.nin; k++)
    if (x->p.in_extents[k].extent == of[i].runs[dim]) return k;
  return -1;
}

bool mica_module_is_extent(const struct mica_module *x, int i) { return i >= 0 && i < x->p.nin && x->p.in_extents[i].extent; }
int mica_module_input_extent(const struct mica_module *x, int i, int dim) { return module_extent(x, x->p.nin, x->p.in, x->p.in_extents, i, dim); }
int mica_module_output_extent(const struct mica_module *x, int i, int dim) { return module_extent(x, x->p.nout, x->p.out, x->p.out_extents, i, dim); }

// ---- calls ----

struct packed {             // one array
  struct shape whole, part; // shapes by the bounds and by the values
  size_t bytes;             // bytes of an element
  void *made;               // a copy of shape `whole`; NULL: the caller's array is used
};

static struct packed packed_of(const struct mica_module *x, const struct mica_tensor *t, const struct package_extents *of, const void *const *in)
{
  struct packed p = {.whole = {.n = t->ndim}, .bytes = (size_t)dtype_bytes((enum dtype)t->dtype)};
  memcpy(p.whole.d, t->shape, sizeof(int64_t) * (size_t)t->ndim), p.part = p.whole;
  for (int d = 0; d < t->ndim; d++)
    for (int k = 0; k < x->p.nin && of->runs[d]; k++)
      if (x->p.in_extents[k].extent == of->runs[d]) p.part.d[d] = *(const int32_t *)in[k];
  return p;
}

static int no_room(const struct mica_tensor *t, struct err *e)
{
  return err_set(e, ERR_MEMORY, NOWHERE, "there is no memory for `%.60s` with its run-time extents at their bounds", t->name);
}

// Fills an array of whole numbers with the value of padding: -1 if they must be distinct, otherwise the number of the range nearest to 0.
static void fill(const struct mica_tensor *t, struct packed *p)
{
  const double c = t->distinct ? -1 : t->least > 0 ? (double)t->least : t->most < 0 ? (double)t->most : 0;
  if (!num_whole((enum dtype)t->dtype) || (!(c < 0) && !(c > 0))) return;
  for (int64_t i = 0, n = shape_size(&p->whole); i < n; i++) num_write((enum dtype)t->dtype, p->made, i, c);
}

static int take_one(const struct mica_tensor *t, bool input, struct packed *p, const void *from, struct err *e)
{
  if (shape_eq(&p->whole, &p->part)) return OK;
  p->made = calloc((size_t)shape_size(&p->whole), p->bytes);
  if (!p->made) return no_room(t, e);
  if (!input) return OK;
  fill(t, p);
  extents_spread(&p->whole, &p->part, p->bytes, p->made, from);
  return OK;
}

// Checks that the values of the run-time extents are within their bounds.
static int check_values(const struct mica_module *x, const void *const *in, struct err *e)
{
  for (int i = 0; i < x->p.nin; i++) {
    const struct mica_tensor *t = &x->p.in[i];
    if (!x->p.in_extents[i].extent) continue;
    if (!in[i]) return err_set(e, ERR_OPTION, NOWHERE, "input %d, `%.60s`, has no address", i, t->name);
    const long long value = *(const int32_t *)in[i];
    if (value < t->least || value > t->most)
      return err_set(e, ERR_EXTENT_BOUND, NOWHERE, "%.60s is %lld, at %s %lld", t->name, value, value > t->most ? "most" : "least",
                     (long long)(value > t->most ? t->most : t->least));
  }
  return OK;
}

static int make(const struct mica_module *x, const void *const *in, const bool *which, struct packed *p, const void **inputs, void **outputs,
                struct err *e)
{
  TRY(check_values(x, in, e));
  for (int i = 0; i < x->p.nin + x->p.nout; i++) {
    const bool input = i < x->p.nin;
    const int k = input ? i : i - x->p.nin;
    const struct mica_tensor *t = input ? &x->p.in[k] : &x->p.out[k];
    const struct package_extents *of = input ? &x->p.in_extents[k] : &x->p.out_extents[k];
    p[i] = packed_of(x, t, of, in);
    if (input ? !inputs[k] : !outputs[k])
      return err_set(e, ERR_OPTION, NOWHERE, "%s %d, `%.60s`, has no address", input ? "input" : "output", k, t->name);
    if (which && !which[i]) continue;
    TRY(take_one(t, input, &p[i], input ? inputs[k] : NULL, e));
    if (p[i].made && input) inputs[k] = p[i].made;
    if (p[i].made && !input) outputs[k] = p[i].made;
  }
  return OK;
}

int mica_module_call_packed(struct mica_module *x, const void *const *in, void *const *out, const bool *which)
{
  const size_t nin = (size_t)x->p.nin, nout = (size_t)x->p.nout;
  struct packed *p = calloc(nin + nout + 1, sizeof *p);
  const void **inputs = calloc(nin + 1, sizeof *inputs);
  void **outputs = calloc(nout + 1, sizeof *outputs);
  struct err e = {0};
  int status = p && inputs && outputs ? OK : err_set(&e, ERR_MEMORY, NOWHERE, "there is no memory for a call");
  if (status == OK && x->p.gpu)
    status = err_set(&e, ERR_OPTION, NOWHERE, "%.60s runs on a GPU: its arrays have the bounds of run-time extents as their shapes", x->p.name);
  if (status == OK) memcpy(inputs, in, nin * sizeof *in), memcpy(outputs, out, nout * sizeof *out);
  if (status == OK) status = make(x, in, which, p, inputs, outputs, &e);
  const bool ready = status == OK;
  if (!ready) module_failed_call(x, &e);
  if (ready) status = mica_module_call(x, inputs, outputs, NULL, NULL);
  for (size_t k = 0; k < nout && ready && status == OK; k++)
    if (p[nin + k].made) extents_gather(&p[nin + k].whole, &p[nin + k].part, p[nin + k].bytes, out[k], p[nin + k].made);
  for (size_t i = 0; p && i < nin + nout; i++) free(p[i].made);
  free(p), free(inputs), free(outputs);
  return status;
}
