// Compares a tile kernel's results with a program in float64 (against.h).
//
// The bound on the relative norm of the difference is in the row of the buffer's type (`kernel` of base/num.h). For narrow types it is 4 times the
// unit roundoff (fp16: 4 * 2^-11, about 2e-3). Rounding the result takes about 0.4 of a roundoff. A kernel that rounds intermediate values
// (probabilities of attention, activations between layers) takes more, 2 or 3 for a net of 20 layers. A norm over many elements does not show a
// few wrong ones. So each element is checked too: its error may be 8 times the bound, relative to itself plus the root mean square of all. If
// that fails, effects of underflow are allowed for (rt/underflow.c).
#include "front/front.h"
#include "sim/against.h"
#include "sim/tile_host.h"
#include "sim/number.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { LEAVES = LAY_LEAVES * TILE_LEVELS };

struct against_buffer { // extents and strides, in elements, of a buffer's dimensions; the last one is the fastest in row-major order
  int n;
  int64_t size, extent[LEAVES], stride[LEAVES];
};
struct against_feed { // the source of a program input: elements of a buffer from `first` on
  int buffer;
  int64_t first;
};

// ---- offsets of elements ----

// Extents and strides of a buffer. Within a nested dimension of a layout the first mode is the fastest; between dimensions the last one is.
static int place(const struct tile_program *p, const struct tile_kernel *k, const int64_t *vars, int buf, struct against_buffer *out, struct err *e)
{
  const struct tile_view *v = &k->views[k->buffers[buf].view];
  *out = (struct against_buffer){.size = 1};
  for (int l = 0; l < v->nlevels; l++)
    for (int d = 0; d < lay_rank(v->level[l]); d++) {
      ex shape[LAY_LEAVES], stride[LAY_LEAVES];
      int n = lay_leaves(lay_mode(v->level[l], d), shape, stride, LAY_LEAVES);
      if (n < 0 || out->n + n > LEAVES)
        return err_set(e, ERR_LIMIT, k->buffers[buf].at, "the layout of %%%s has too many dimensions", k->buffers[buf].name);
      while (n-- > 0) {
        out->extent[out->n] = ex_eval(p->ex, shape[n], vars), out->stride[out->n] = ex_eval(p->ex, stride[n], vars);
        out->size *= out->extent[out->n++];
      }
    }
  return OK;
}

static int64_t offset_of(const struct against_buffer *b, int64_t element)
{
  int64_t at = 0;
  for (int i = b->n - 1; i >= 0; i--) {
    at += element % b->extent[i] * b->stride[i];
    element /= b->extent[i];
  }
  return at;
}

// ---- pairs of tensors and buffers ----

static const char *tensor_name(const struct graph *g, int t) { return g->tensors[t].name ? g->tensors[t].name : ""; }

static size_t stem(const char *name)
{
  size_t n = strlen(name);
  while (n > 0 && isdigit((unsigned char)name[n - 1])) n--;
  return n;
}

static bool same_stem(const char *a, const char *b) { return stem(a) == stem(b) && !strncmp(a, b, stem(a)); }

// position[i]: the buffer of input i, as a position in the list of buffers. Inputs with the same name up to digits at the end share a buffer.
// Returns the number of buffers.
static int by_stem(const struct graph *g, int n, const int *in, int *position)
{
  int stems = 0;
  for (int i = 0; i < n; i++) {
    int first = 0;
    while (first < i && !same_stem(tensor_name(g, in[first]), tensor_name(g, in[i]))) first++;
    position[i] = first < i ? position[first] : stems++;
  }
  return stems;
}

static int by_name(const struct against *a, const int *in, int n, const int *list, int *position)
{
  for (int i = 0; i < n; i++) {
    position[i] = -1;
    for (int j = 0; j < n; j++)
      if (!strcmp(tensor_name(a->g, in[i]), a->k->buffers[list[j]].name)) position[i] = j;
    if (position[i] < 0) return NO;
  }
  return OK;
}

static const char *list_names(struct arena *mem, const struct tile_kernel *k, int n, const int *list)
{
  const char *s = n ? "" : "none";
  for (int i = 0; i < n; i++) s = arena_printf(mem, "%s%s%%%s", s, i ? ", " : "", k->buffers[list[i]].name);
  return s;
}

static int other_size(const struct against *a, int buf, const char *what, const char *name, int64_t size, struct err *e)
{
  char text[256] = "";
  const struct against_buffer *b = &a->buffer[buf];
  for (int i = 0; i < b->n; i++) snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? ", " : "", (long long)b->extent[i]);
  err_set(e, ERR_MISMATCH, a->k->buffers[buf].at, "%%%s of %s has %lld elements ([%s]), and %s %s of %s has %lld", a->k->buffers[buf].name,
          a->k->name, (long long)b->size, text, what, name, a->g->name ? a->g->name : "the program", (long long)size);
  err_hint(e, "sizes of the program are set by --against FILE,NAME=VALUE,... and those of the kernel apart from it");
  return USER;
}

static int pair_inputs(struct against *a, struct arena *mem, int nlist, const int *list, struct err *e)
{
  int n = graph_inputs(a->g, NULL), *in = NEWS(mem, int, n + 1), *position = NEWS(mem, int, n + 1), places = n;
  graph_inputs(a->g, in);
  if (n != nlist)
    places = by_stem(a->g, n, in, position);
  else if (by_name(a, in, n, list, position))
    for (int i = 0; i < n; i++) position[i] = i;
  if (places != nlist)
    return err_set(e, ERR_MISMATCH, a->k->at, "%s reads %d buffers (%s), and %s has %d inputs%s", a->k->name, nlist,
                   list_names(mem, a->k, nlist, list), a->g->name ? a->g->name : "the program", n,
                   places < n ? ", also with those that only differ by a number taken together" : "");
  int64_t *used = NEWS(mem, int64_t, nlist + 1);
  a->feed = NEWS(mem, struct against_feed, n + 1);
  for (int i = 0; i < n; i++) {
    a->feed[i] = (struct against_feed){list[position[i]], used[position[i]]};
    used[position[i]] += shape_size(&a->g->tensors[in[i]].shape);
  }
  for (int i = 0; i < n; i++)
    if (used[position[i]] != a->buffer[a->feed[i].buffer].size)
      return other_size(a, a->feed[i].buffer, "input", tensor_name(a->g, in[i]), used[position[i]], e);
  return OK;
}

static int pair_outputs(struct against *a, struct arena *mem, int nlist, const int *list, struct err *e)
{
  int n = graph_outputs(a->g, NULL), *out = NEWS(mem, int, n + 1);
  graph_outputs(a->g, out);
  if (n != nlist)
    return err_set(e, ERR_MISMATCH, a->k->at, "%s writes %d buffers (%s), and %s has %d outputs", a->k->name, nlist,
                   list_names(mem, a->k, nlist, list), a->g->name ? a->g->name : "the program", n);
  a->noutputs = n, a->output = arena_copy(mem, list, sizeof *list * (size_t)(n + 1));
  for (int i = 0; i < n; i++) {
    int64_t size = shape_size(&a->g->tensors[out[i]].shape);
    if (size != a->buffer[list[i]].size) return other_size(a, list[i], "output", tensor_name(a->g, out[i]), size, e);
    if (!num_floats(&tile_types[a->k->buffers[list[i]].type]))
      return err_set(e, ERR_MISMATCH, a->k->buffers[list[i]].at, "%%%s is of %s, and programs compute real numbers", a->k->buffers[list[i]].name,
                     tile_types[a->k->buffers[list[i]].type].name);
  }
  return OK;
}

static int pair_all(struct against *a, struct arena *mem, const int64_t *params, struct err *e)
{
  const struct tile_kernel *k = a->k;
  int64_t *vars = NEWS(mem, int64_t, ex_vars(a->p->ex) + 1);
  for (int i = 0; i < k->nparams; i++)
    if (!ex_is_const(k->params[i])) vars[ex_node(a->p->ex, k->params[i])->c] = params[i];
  const bool *reads = tile_host_reads(mem, k);
  int nin = 0, nout = 0, *in = NEWS(mem, int, k->nbuffers + 1), *out = NEWS(mem, int, k->nbuffers + 1);
  a->buffer = NEWS(mem, struct against_buffer, k->nbuffers + 1);
  for (int b = 0; b < k->nbuffers; b++) {
    if (k->buffers[b].mem != MEM_GL) continue;
    TRY(place(a->p, k, vars, b, &a->buffer[b], e));
    if (reads[b]) in[nin++] = b;
    if (k->buffers[b].written) out[nout++] = b;
  }
  TRY(pair_inputs(a, mem, nin, in, e));
  return pair_outputs(a, mem, nout, out, e);
}

// ---- the program ----

int against_program(struct arena *mem, const char *word, struct graph **out, struct err *e)
{
  const char **set = NEWS(mem, const char *, strlen(word) + 1);
  char *text = arena_strdup(mem, word), *rest = NULL, *path = strtok_r(text, ",", &rest);
  int n = 0;
  if (!path) return err_set(e, ERR_OPTION, NOWHERE, "--against takes FILE[,NAME=VALUE]...");
  for (char *s; (s = strtok_r(NULL, ",", &rest));) set[n++] = s;
  return load_file(mem, path, n, set, out, e);
}

static void read_input(const void *arg, int input, int64_t from, int64_t to, double *out)
{
  const struct against *a = arg;
  const struct against_feed *f = &a->feed[input];
  enum tile_type t = a->k->buffers[f->buffer].type;
  const char *data = a->data[f->buffer];
  for (int64_t i = from; i < to; i++) out[i - from] = num_one(t, data + offset_of(&a->buffer[f->buffer], f->first + i) * tile_types[t].bytes);
}

// Copies the buffers that the program reads, since the kernel may write to them.
static void keep_inputs(struct against *a, struct arena *mem, void *const *data)
{
  const void **kept = NEWS(mem, const void *, a->k->nbuffers + 1);
  for (int i = 0, n = graph_inputs(a->g, NULL); i < n; i++) {
    const int buf = a->feed[i].buffer;
    const struct against_buffer *b = &a->buffer[buf];
    size_t bytes = (size_t)(offset_of(b, b->size - 1) + 1) * (size_t)tile_types[a->k->buffers[buf].type].bytes;
    if (!kept[buf]) kept[buf] = arena_copy(mem, data[buf], bytes);
  }
  a->data = kept;
}

int against_open(struct against *a, struct arena *mem, const struct graph *program, const struct tile_program *p, const struct tile_kernel *k,
                 const int64_t *params, void *const *data, struct err *e)
{
  struct graph *plain;
  double start = now_seconds();
  *a = (struct against){.p = p, .k = k};
  TRY(graph_expand(mem, program, true, &plain, e));
  TRY(graph_unfold(mem, plain, &plain, e));
  a->g = plain;
  TRY(pair_all(a, mem, params, e));
  keep_inputs(a, mem, data);
  struct reference64_from from = {.read = read_input, .arg = a};
  TRY(reference64_run(&a->reference, a->g, &from, e));
  a->seconds = now_seconds() - start;
  return OK;
}

void against_close(struct against *a)
{
  reference64_close(&a->reference);
  a->reference = (struct reference64){0};
}

// ---- comparing ----

// The error of an element. NaN for NaN and an infinity for itself have no error; for other values these have an infinite one.
static double distance(double got, double want)
{
  if (isnan(got) && isnan(want)) return 0;
  double off = got == want ? 0 : fabs(got - want);
  return isnan(off) ? INFINITY : off;
}

// Root mean square and zeros of the program's values, and whether all are equal.
static void survey(const double *want, int64_t n, struct against_answer *out)
{
  double norm = 0;
  for (int64_t x = 0; x < n; x++) {
    norm += isfinite(want[x]) ? want[x] * want[x] : 0;
    out->zeros += want[x] == 0;
    if (want[x] != want[0]) out->flat = false;
  }
  out->typical = sqrt(norm / (double)MAX(n, 1));
}

// floor: the part of the norm of the difference that underflow can explain.
static void compare(const struct against *a, int buf, const double *want, const void *data, double floor, struct against_answer *out)
{
  enum tile_type t = a->k->buffers[buf].type;
  const struct against_buffer *b = &a->buffer[buf];
  const double count = sqrt((double)MAX(b->size, 1)), norm = out->typical * count, usual = out->typical + floor / count / out->bound;
  double difference = 0, furthest = -1;
  out->wrong = 0;
  for (int64_t x = 0; x < b->size; x++) {
    double got = num_one(t, (const char *)data + offset_of(b, x) * tile_types[t].bytes);
    double off = distance(got, want[x]);
    difference += off * off;
    if (off > 0 && !(isfinite(want[x]) && off <= 8 * out->bound * (fabs(want[x]) + usual))) out->wrong++;
    if (off > furthest) furthest = off, out->worst = x, out->got = got, out->want = want[x];
  }
  out->relative = norm > 0 ? sqrt(difference) / norm : sqrt(difference);
  out->fine = sqrt(difference) <= out->bound * (norm > 0 ? norm : 1) + floor && !out->wrong;
}

// floor[t] of the program's output tensors; zeros if it cannot be computed.
static const double *floors(const struct against *a, struct arena *mem)
{
  double *floor = NEWS(mem, double, a->g->ntensors + 1);
  struct reference64_from from = {.read = read_input, .arg = a};
  struct err e = {0};
  underflow_floors(&a->reference, &from, floor, &e);
  return floor;
}

void against_compare(const struct against *a, int i, const void *data, struct against_answer *out)
{
  const int buf = a->output[i];
  struct arena mem = {0};
  int *tensor = NEWS(&mem, int, graph_outputs(a->g, NULL) + 1);
  graph_outputs(a->g, tensor);
  const double *want = a->reference.value[tensor[i]];
  const struct tile_buffer *b = &a->k->buffers[buf];
  *out = (struct against_answer){.name = b->name, .elements = a->buffer[buf].size, .bound = tile_types[b->type].kernel, .flat = true};
  survey(want, out->elements, out);
  compare(a, buf, want, data, 0, out);
  if (!out->fine) compare(a, buf, want, data, floors(a, &mem)[tensor[i]], out);
  arena_close(&mem);
}

void against_text(const struct against_answer *r, struct str *out)
{
  str_add(out, "%%%s: %lld elements of about %.3g, relative norm of the difference %.3g (at most %.2g)%s\n", r->name, (long long)r->elements,
          r->typical, r->relative, r->bound, r->fine ? r->flat ? ", but all elements are the same" : "" : "  WRONG");
  if (!r->fine)
    str_add(out, "  %lld elements are off; most, number %lld: the kernel has %g, the program %g\n", (long long)r->wrong, (long long)r->worst, r->got,
            r->want);
}
