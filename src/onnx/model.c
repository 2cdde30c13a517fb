// ModelProto -> structs, by tables of fields (field numbers: onnx.proto of the ONNX project). Unused fields are skipped. A field with a wrong wire
// type is an error with its offset in the file.
#include "onnx/onnx.h"
#include "onnx/message.h"

#include <string.h>

static int read_node(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_model *m = into;
  struct onnx_node n;
  if (m->nnodes == ONNX_NODES) return onnx_bad(m, r->e, "the graph has more than %d nodes", ONNX_NODES);
  int s = onnx_read_node(r, f, &n);
  if (s == OK) PUSH(m->mem, m->nodes, m->nnodes, m->nodes_cap) = n;
  return s;
}

// ---- inputs, outputs, types ----

struct info {
  const char *name;
  int type;
  bool tensor, shape;
  struct onnx_ints dims; // -1: symbolic
  const char *symbol[MAX_DIMS];
};
struct model_dim {
  int64_t value;
  const char *symbol;
};

static const struct onnx_field dim_fields[] = {
    {1, WIRE_VARINT, onnx_read_int64, offsetof(struct model_dim, value)},
    {2, WIRE_BYTES, onnx_read_text, offsetof(struct model_dim, symbol)},
};

static int read_dim(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct info *i = into;
  struct model_dim d = {.value = -1, .symbol = ""};
  int s = onnx_message(r, f->bytes, dim_fields, COUNT(dim_fields), "Dimension", &d);
  if (s == OK && i->dims.n < MAX_DIMS) i->symbol[i->dims.n] = d.symbol;
  if (s == OK && d.value < -1) return onnx_bad(r->m, r->e, "byte %lld: an extent is negative", onnx_place(r, f->bytes.p));
  if (s == OK) PUSH(r->m->mem, i->dims.v, i->dims.n, i->dims.cap) = d.value;
  return s;
}

static const struct onnx_field shape_fields[] = {{1, WIRE_BYTES, read_dim, 0}};

static int read_shape(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct info *i = into;
  i->shape = true;
  return onnx_message(r, f->bytes, shape_fields, COUNT(shape_fields), "TensorShapeProto", i);
}

static const struct onnx_field tensor_type_fields[] = {
    {1, WIRE_VARINT, onnx_read_int, offsetof(struct info, type)},
    {2, WIRE_BYTES, read_shape, 0},
};

static int read_tensor_type(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct info *i = into;
  i->tensor = true;
  return onnx_message(r, f->bytes, tensor_type_fields, COUNT(tensor_type_fields), "TypeProto", i);
}

static const struct onnx_field type_fields[] = {{1, WIRE_BYTES, read_tensor_type, 0}};

static int read_type(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  return onnx_message(r, f->bytes, type_fields, COUNT(type_fields), "TypeProto", into);
}

static const struct onnx_field info_fields[] = {
    {1, WIRE_BYTES, onnx_read_text, offsetof(struct info, name)},
    {2, WIRE_BYTES, read_type, 0},
};

// The value of a symbolic extent from `--set`; -1: none. `note`: it is an extent of an input, and is recorded.
static int64_t symbol_value(struct onnx_model *m, const char *symbol, bool note)
{
  int64_t is = -1;
  for (int k = 0; k < m->nset; k++)
    if (!strcmp(m->set[k].name, symbol)) is = m->set[k].value;
  for (int k = 0; k < m->ndims && note; k++)
    if (!strcmp(m->dims[k].name, symbol)) return is;
  if (note) PUSH(m->mem, m->dims, m->ndims, m->dims_cap) = (struct onnx_dim){symbol, is};
  return is;
}

static int learn(struct onnx_parse *r, struct info *i, bool input, int value)
{
  struct onnx_model *m = r->m;
  struct onnx_value *v = &m->values[value];
  if (!i->tensor) return OK; // a sequence or a map: the type stays unknown
  bool known = i->shape && i->dims.n <= MAX_DIMS;
  struct shape s = {.n = i->dims.n};
  for (int k = 0; known && k < s.n; k++) {
    const char *symbol = i->symbol[k];
    s.d[k] = i->dims.v[k];
    if (s.d[k] < 0 && !*symbol && input) symbol = arena_printf(m->mem, "%s.%d", v->name, k);
    if (s.d[k] < 0 && *symbol) s.d[k] = symbol_value(m, symbol, input);
    known = s.d[k] >= 0 && s.d[k] < (int64_t)1 << 40;
    if (!known && input && s.d[k] < 0) known = true, s.d[k] = -1; // reported together, after all inputs
  }
  v->type = i->type, v->shaped = known;
  if (v->shaped) v->shape = s;
  return OK;
}

static int read_info(struct onnx_parse *r, const struct wire_field *f, bool input, int *value)
{
  struct info i = {.name = ""};
  int s = onnx_message(r, f->bytes, info_fields, COUNT(info_fields), "ValueInfoProto", &i);
  if (s != OK) return s;
  if (!*i.name) return onnx_bad(r->m, r->e, "byte %lld: a value without a name", onnx_place(r, f->bytes.p));
  if (r->m->nvalues >= ONNX_VALUES) return onnx_bad(r->m, r->e, "the graph has more than %d values", ONNX_VALUES);
  *value = onnx_value_of(r->m, i.name);
  return learn(r, &i, input, *value);
}

static int read_input(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_model *m = into;
  int v, s = read_info(r, f, true, &v);
  if (s != OK) return s;
  if (m->values[v].input) return onnx_bad(m, r->e, "there are two inputs `%.200s`", m->values[v].name);
  m->values[v].input = true;
  PUSH(m->mem, m->inputs, m->ninputs, m->inputs_cap) = v;
  return OK;
}

static int read_output(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_model *m = into;
  int v, s = read_info(r, f, false, &v);
  if (s != OK) return s;
  if (m->values[v].output) return onnx_bad(m, r->e, "there are two outputs `%.200s`", m->values[v].name);
  m->values[v].output = true;
  PUSH(m->mem, m->outputs, m->noutputs, m->outputs_cap) = v;
  return OK;
}

static int read_other_info(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  (void)into;
  return read_info(r, f, false, &(int){0});
}

static int read_initializer(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_model *m = into;
  struct onnx_tensor *t = NEW(m->mem, struct onnx_tensor);
  int s = onnx_read_tensor(m, f->bytes, t, r->e);
  if (s == OK) PUSH(m->mem, m->inits, m->ninits, m->inits_cap) = t;
  return s;
}

static int read_sparse(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  (void)into;
  return onnx_bad(r->m, r->e, "byte %lld: sparse initializers are not read", onnx_place(r, f->bytes.p));
}

static const struct onnx_field graph_fields[] = {
    {1, WIRE_BYTES, read_node, 0},        {2, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_model, name)},
    {5, WIRE_BYTES, read_initializer, 0}, {11, WIRE_BYTES, read_input, 0},
    {12, WIRE_BYTES, read_output, 0},     {13, WIRE_BYTES, read_other_info, 0},
    {15, WIRE_BYTES, read_sparse, 0},
};

// ---- the model ----

struct opset {
  const char *domain;
  int64_t version;
};
static const struct onnx_field opset_fields[] = {
    {1, WIRE_BYTES, onnx_read_text, offsetof(struct opset, domain)},
    {2, WIRE_VARINT, onnx_read_int64, offsetof(struct opset, version)},
};

int onnx_read_opset(struct onnx_parse *r, const struct wire_field *f, int64_t *version)
{
  struct opset o = {.domain = ""};
  int s = onnx_message(r, f->bytes, opset_fields, COUNT(opset_fields), "OperatorSetIdProto", &o);
  if (s == OK && (!*o.domain || !strcmp(o.domain, "ai.onnx"))) *version = o.version;
  return s;
}

static int read_opset(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_model *m = into;
  int64_t before = m->opset;
  int s = onnx_read_opset(r, f, &m->opset);
  m->other_domain |= m->opset == before;
  return s;
}

static int read_graph(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  if (r->graph) return onnx_bad(r->m, r->e, "byte %lld: a second graph", onnx_place(r, f->bytes.p));
  r->graph = true;
  return onnx_message(r, f->bytes, graph_fields, COUNT(graph_fields), "GraphProto", into);
}

static const struct onnx_field model_fields[] = {
    {2, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_model, producer)},
    {7, WIRE_BYTES, read_graph, 0},
    {8, WIRE_BYTES, read_opset, 0},
    {25, WIRE_BYTES, onnx_read_function, 0},
};

int onnx_read_model(struct onnx_model *m, struct onnx_bytes b, struct err *e)
{
  struct onnx_parse r = {.m = m, .e = e};
  int s = onnx_message(&r, b, model_fields, COUNT(model_fields), "ModelProto", m);
  if (s == OK && !r.graph) s = onnx_bad(m, e, "it holds no graph: this is no ONNX model");
  return s;
}
