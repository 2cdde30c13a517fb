// Opens a model: parses the file, resolves names, sets symbolic extents, orders the nodes.
#include "onnx/onnx.h"

#include <stdio.h>
#include <string.h>

bool onnx_looks(const char *path)
{
  size_t n = strlen(path);
  FILE *f = fopen(path, "rb");
  int first = f ? getc(f) : EOF;
  if (f) fclose(f);
  // ModelProto begins with its version, field 1; no text begins with that byte
  return first == 8 || (n > 5 && !strcmp(path + n - 5, ".onnx"));
}

static bool opset_ok(struct onnx_model *m, struct err *e)
{
  if (m->opset >= ONNX_OLDEST && m->opset <= ONNX_NEWEST) return true;
  if (!m->opset && m->other_domain) return true; // no node is in the default domain
  if (!m->opset)
    onnx_bad(m, e, "the model does not say which operator set it uses");
  else
    onnx_bad(m, e, "the model uses operator set %lld; %d to %d are read", (long long)m->opset, ONNX_OLDEST, ONNX_NEWEST);
  err_hint(e, "export it with opset_version=%d, or convert it by onnx.version_converter", ONNX_NEWEST);
  return false;
}

// Initializers replace inputs of the same name; before IR version 4 each had one.
static int initializers(struct onnx_model *m, struct err *e)
{
  for (int i = 0; i < m->ninits; i++) {
    if (m->nvalues >= ONNX_VALUES) return onnx_bad(m, e, "the graph has more than %d values", ONNX_VALUES);
    if (!*m->inits[i]->name) return onnx_bad(m, e, "an initializer has no name");
    int value = onnx_value_of(m, m->inits[i]->name); // it may reallocate the values
    struct onnx_value *v = &m->values[value];
    if (v->init) return onnx_bad(m, e, "there are two initializers `%.200s`", v->name);
    v->init = m->inits[i], v->type = v->init->type, v->shape = v->init->shape, v->shaped = true, v->input = false;
  }
  int n = 0;
  for (int i = 0; i < m->ninputs; i++)
    if (!m->values[m->inputs[i]].init) m->inputs[n++] = m->inputs[i];
  m->ninputs = n;
  return OK;
}

static int resolve_inputs(struct onnx_model *m, int i, struct err *e)
{
  struct onnx_node *n = &m->nodes[i];
  n->in = NEWS(m->mem, int, n->nin + 1), n->out = NEWS(m->mem, int, n->nout + 1);
  for (int k = 0; k < n->nin; k++) {
    n->in[k] = *n->in_name[k] ? onnx_find(m, n->in_name[k]) : -1;
    const struct onnx_value *v = n->in[k] < 0 ? NULL : &m->values[n->in[k]];
    if (*n->in_name[k] && (!v || (!v->input && !v->init && v->node < 0)))
      return onnx_bad(m, e, "node %s reads `%.200s`, which nothing before it makes", onnx_node_title(m->mem, m, i), n->in_name[k]);
    if (v) m->values[n->in[k]].uses++;
  }
  return OK;
}

// Names that subgraphs take from the enclosing graph become additional inputs of the node, so that they count as used.
static void capture(struct onnx_model *m, struct onnx_node *n)
{
  if (!n->captured_as) n->captured_as = arena_copy(m->mem, n->captured, sizeof *n->captured * (size_t)n->ncaptured);
  for (int k = 0; k < n->ncaptured; k++) {
    int v = onnx_find(m, n->captured[k]);
    if (v >= 0) m->values[v].uses++;
    n->captured[k] = v >= 0 ? m->values[v].name : "";
  }
}

static int resolve_outputs(struct onnx_model *m, int i, struct err *e)
{
  struct onnx_node *n = &m->nodes[i];
  for (int k = 0; k < n->nout; k++) {
    n->out[k] = -1;
    if (!*n->out_name[k]) continue;
    if (m->nvalues >= ONNX_VALUES) return onnx_bad(m, e, "the graph has more than %d values", ONNX_VALUES);
    n->out[k] = onnx_value_of(m, n->out_name[k]);
    struct onnx_value *v = &m->values[n->out[k]];
    if (v->input || v->init || v->node >= 0)
      return onnx_bad(m, e, "node %s makes `%.200s`, which is there already", onnx_node_title(m->mem, m, i), v->name);
    v->node = i;
  }
  return OK;
}

static int resolve(struct onnx_model *m, struct err *e)
{
  for (int i = 0; i < m->nnodes; i++) {
    int s = resolve_inputs(m, i, e);
    if (s == OK) s = resolve_outputs(m, i, e);
    if (s != OK) return s;
    capture(m, &m->nodes[i]);
  }
  for (int i = 0; i < m->noutputs; i++) {
    struct onnx_value *v = &m->values[m->outputs[i]];
    if (!v->input && !v->init && v->node < 0) return onnx_bad(m, e, "nothing makes the output `%.200s`", v->name);
    v->uses++;
  }
  return m->noutputs ? OK : onnx_bad(m, e, "the graph has no outputs");
}

static int dim_unknown(const struct onnx_model *m, const char *name, struct err *e)
{
  struct str names = {0};
  for (int k = 0; k < m->ndims; k++) str_add(&names, "%s%.80s", k ? ", " : "", m->dims[k].name);
  err_set(e, ERR_OPTION, (struct loc){m->path, 0, 0}, "the model's inputs have no extent `%.80s` to set", name);
  err_hint(e, m->ndims ? "extents that can be set: %.400s" : "all extents of its inputs are fixed%.400s", str_text(&names));
  str_free(&names);
  return (int)e->status;
}

static int dims_set(struct onnx_model *m, struct err *e)
{
  struct str unset = {0};
  const char *first = NULL;
  for (int k = 0; k < m->ndims; k++) {
    if (m->dims[k].is >= 0) continue;
    str_add(&unset, "%s`%.80s`", first ? ", " : "", m->dims[k].name);
    if (!first) first = m->dims[k].name;
  }
  if (first) {
    onnx_bad(m, e, "these extents of inputs have no value: %.400s", str_text(&unset));
    err_hint(e, "give each one: --set %.80s=1", first);
  }
  str_free(&unset);
  for (int i = 0; i < m->nset && !first; i++) {
    int k = 0;
    while (k < m->ndims && strcmp(m->dims[k].name, m->set[i].name)) k++;
    if (k == m->ndims) return dim_unknown(m, m->set[i].name, e);
    if (m->set[i].value < 0) return err_set(e, ERR_EXTENT, (struct loc){m->path, 0, 0}, "extent `%.80s` is negative", m->set[i].name);
  }
  return first ? USER : OK;
}

static int shapes_ok(struct onnx_model *m, struct err *e)
{
  for (int v = 0; v < m->nvalues; v++) {
    struct onnx_value *x = &m->values[v];
    bool large = x->shaped && onnx_elements(&x->shape) >= (int64_t)1 << 40;
    if (large && x->input) return onnx_bad(m, e, "input `%.200s` would have 2^40 elements or more", x->name);
    x->shaped = x->shaped && !large;
    if (x->input && !x->shaped) return onnx_bad(m, e, "input `%.200s` is no tensor of a shape that can be read", x->name);
  }
  return OK;
}

static int open_rest(struct onnx_model *m, struct err *e)
{
  int s = onnx_read_model(m, (struct onnx_bytes){m->files[0].p, m->files[0].n}, e);
  if (s == OK && !opset_ok(m, e)) s = USER;
  if (s == OK) s = onnx_inline(m, e);
  if (s == OK) s = initializers(m, e);
  if (s == OK) s = dims_set(m, e);
  if (s == OK) s = shapes_ok(m, e);
  if (s == OK) s = resolve(m, e);
  return s == OK ? onnx_plan(m, e) : s;
}

static struct onnx_model *model_new(struct arena *mem, const char *path, int nset, const struct setting *set)
{
  struct onnx_model *m = NEW(mem, struct onnx_model);
  *m = (struct onnx_model){.mem = mem, .path = path ? arena_strdup(mem, path) : NULL, .name = "", .producer = "", .nset = nset, .set = set};
  return m;
}

static const char *folder_of(struct arena *mem, const char *path)
{
  const char *slash = strrchr(path, '/');
  return !slash ? "." : slash == path ? "/" : arena_printf(mem, "%.*s", (int)(slash - path), path);
}

int onnx_open(struct arena *mem, const char *path, int nset, const struct setting *set, struct onnx_model **out, struct err *e)
{
  struct onnx_model *m = *out = model_new(mem, path, nset, set);
  m->folder = folder_of(mem, path);
  int s = onnx_map_open(mem, path, &m->files[0], e);
  m->nfiles = 1;
  return s == OK ? open_rest(m, e) : s;
}

int onnx_open_bytes(struct arena *mem, const uint8_t *p, size_t n, const char *path, const char *folder, int nset, const struct setting *set,
                    struct onnx_model **out, struct err *e)
{
  struct onnx_model *m = *out = model_new(mem, path, nset, set);
  m->folder = folder, m->files[0] = (struct onnx_map){path, p, n}, m->nfiles = 1;
  int s = open_rest(m, e);
  m->files[0].p = NULL; // owned by the caller
  return s;
}

void onnx_close(struct onnx_model *m)
{
  for (int i = 0; i < m->nfiles; i++) onnx_map_close(&m->files[i]);
}
