// NodeProto and AttributeProto -> structs, for nodes of the model's graph, of its functions, and of subgraphs.
#include "onnx/message.h"

#include <string.h>

enum { DEEPEST = 16 }; // deepest nesting of subgraphs

// ---- attributes ----

static double float_of(uint32_t bits)
{
  float x;
  memcpy(&x, &bits, 4);
  return (double)x;
}

static int read_float(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  (void)r;
  *(double *)into = float_of((uint32_t)f->value);
  return OK;
}

static int read_floats(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_attr *a = into;
  if (f->kind == WIRE_32) return PUSH(r->m->mem, a->floats, a->nfloats, a->floats_cap) = float_of((uint32_t)f->value), OK;
  if (f->kind != WIRE_BYTES || f->bytes.n % 4) return onnx_bad(r->m, r->e, "a list of floats has the wrong kind or length");
  for (size_t i = 0; i < f->bytes.n; i += 4) {
    uint32_t bits;
    memcpy(&bits, f->bytes.p + i, 4);
    PUSH(r->m->mem, a->floats, a->nfloats, a->floats_cap) = float_of(bits);
  }
  return OK;
}

static int read_attr_text(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  // strings of attributes are bytes; those that Mica reads are words
  bool word = f->bytes.n < 4096;
  for (size_t i = 0; i < f->bytes.n && word; i++) word = f->bytes.p[i] >= ' ' && f->bytes.p[i] < 127;
  struct onnx_bytes b = word ? f->bytes : (struct onnx_bytes){(const uint8_t *)"?", 1};
  const char *s = onnx_text(r->m, b, r->e);
  return *(const char **)into = s, s ? OK : USER;
}

static int read_attr_texts(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_attr *a = into;
  const char *s;
  int status = read_attr_text(r, f, &s);
  if (status == OK) PUSH(r->m->mem, a->texts.v, a->texts.n, a->texts.cap) = s;
  return status;
}

static int read_attr_tensor(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_attr *a = into;
  a->t = NEW(r->m->mem, struct onnx_tensor);
  return onnx_read_tensor(r->m, f->bytes, a->t, r->e);
}

static int read_attr_graph(struct onnx_parse *r, const struct wire_field *f, void *into);

static const struct onnx_field attr_fields[] = {
    {1, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_attr, name)},
    {2, WIRE_32, read_float, offsetof(struct onnx_attr, f)},
    {3, WIRE_VARINT, onnx_read_int64, offsetof(struct onnx_attr, i)},
    {4, WIRE_BYTES, read_attr_text, offsetof(struct onnx_attr, s)},
    {5, WIRE_BYTES, read_attr_tensor, 0},
    {6, WIRE_BYTES, read_attr_graph, 0},
    {7, WIRE_ANY, read_floats, 0},
    {8, WIRE_ANY, onnx_read_ints, offsetof(struct onnx_attr, ints)},
    {9, WIRE_BYTES, read_attr_texts, 0},
    {11, WIRE_BYTES, read_attr_graph, 0},
    {21, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_attr, ref)},
};

// ---- nodes ----

static int read_name_to(struct onnx_parse *r, const struct wire_field *f, const char ***list, int *n, int *cap)
{
  const char *s = onnx_text(r->m, f->bytes, r->e);
  if (!s) return USER;
  PUSH(r->m->mem, *list, *n, *cap) = s;
  return OK;
}

int onnx_read_texts(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_texts *t = into;
  return read_name_to(r, f, &t->v, &t->n, &t->cap);
}

static int read_node_in(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_node *n = into;
  return read_name_to(r, f, &n->in_name, &n->nin, &n->in_cap);
}

static int read_node_out(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_node *n = into;
  return read_name_to(r, f, &n->out_name, &n->nout, &n->out_cap);
}

int onnx_read_attr(struct onnx_parse *r, const struct wire_field *f, struct onnx_attr *a)
{
  *a = (struct onnx_attr){.name = "", .ref = ""};
  return onnx_message(r, f->bytes, attr_fields, COUNT(attr_fields), "AttributeProto", a);
}

static int read_node_attr(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_node *n = into, *above = r->node;
  r->node = n;
  int s = onnx_read_attr(r, f, &PUSH(r->m->mem, n->attrs, n->nattrs, n->attrs_cap));
  r->node = above;
  return s;
}

static const struct onnx_field node_fields[] = {
    {1, WIRE_BYTES, read_node_in, 0},
    {2, WIRE_BYTES, read_node_out, 0},
    {3, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_node, name)},
    {4, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_node, type)},
    {5, WIRE_BYTES, read_node_attr, 0},
    {7, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_node, domain)},
    {8, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_node, overload)},
};

int onnx_read_node(struct onnx_parse *r, const struct wire_field *f, struct onnx_node *n)
{
  *n = (struct onnx_node){.name = "", .type = "", .domain = "", .overload = "", .into = -1, .group = -1};
  return onnx_message(r, f->bytes, node_fields, COUNT(node_fields), "NodeProto", n);
}

// ---- subgraphs ----

// The names that a subgraph reads include values of the enclosing graph.
static void capture(struct onnx_parse *r, const char *name)
{
  struct onnx_node *n = r->node;
  PUSH(r->m->mem, n->captured, n->ncaptured, n->captured_cap) = name;
}

static int read_inner_node(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_graph *g = into;
  struct onnx_node n;
  int s = onnx_read_node(r, f, &n);
  for (int i = 0; s == OK && i < n.nin; i++) capture(r, n.in_name[i]);
  for (int i = 0; s == OK && i < n.ncaptured; i++) capture(r, n.captured[i]);
  if (s == OK) PUSH(r->m->mem, g->nodes, g->nnodes, g->nodes_cap) = n;
  return s;
}

static int read_inner_tensor(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_graph *g = into;
  struct onnx_tensor *t = NEW(r->m->mem, struct onnx_tensor);
  int s = onnx_read_tensor(r->m, f->bytes, t, r->e);
  if (s == OK) PUSH(r->m->mem, g->inits, g->ninits, g->inits_cap) = t;
  return s;
}

static const struct onnx_field inner_info[] = {{1, WIRE_BYTES, onnx_read_text, 0}};

static int read_inner_in(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_graph *g = into;
  return onnx_message(r, f->bytes, inner_info, COUNT(inner_info), "ValueInfoProto", &PUSH(r->m->mem, g->in.v, g->in.n, g->in.cap));
}

static int read_inner_out(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_graph *g = into;
  const char *name = "";
  int s = onnx_message(r, f->bytes, inner_info, COUNT(inner_info), "ValueInfoProto", &name);
  if (s == OK) capture(r, name);
  PUSH(r->m->mem, g->out.v, g->out.n, g->out.cap) = name;
  return s;
}

static const struct onnx_field inner_fields[] = {
    {1, WIRE_BYTES, read_inner_node, 0},
    {5, WIRE_BYTES, read_inner_tensor, 0},
    {11, WIRE_BYTES, read_inner_in, 0},
    {12, WIRE_BYTES, read_inner_out, 0},
};

static int read_attr_graph(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_attr *a = into;
  a->graphs |= a->g != NULL;
  a->g = NEW(r->m->mem, struct onnx_graph);
  if (++r->depth > DEEPEST) return onnx_bad(r->m, r->e, "graphs are nested more than %d deep", DEEPEST);
  int s = onnx_message(r, f->bytes, inner_fields, COUNT(inner_fields), "GraphProto", a->g);
  r->depth--;
  return s;
}
