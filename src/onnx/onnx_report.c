// The outcome of a model, as text and as JSON (docs/onnx.md lists the keys).
#include "onnx/onnx.h"

#include <string.h>

static const char *const fates[] = {[ONNX_FOLDED] = "folded", [ONNX_TAKEN] = "taken", [ONNX_LEFT] = "left", [ONNX_UNSUPPORTED] = "unsupported"};

struct counts {
  int taken, folded, left, unsupported, unused;
};

static struct counts count(const struct onnx_model *m)
{
  struct counts c = {0};
  for (int i = 0; i < m->nnodes; i++) {
    const struct onnx_node *n = &m->nodes[i];
    if (n->fate == ONNX_UNSUPPORTED)
      c.unsupported++;
    else if (n->fate == ONNX_FOLDED)
      c.folded++;
    else if (n->into < 0 ? !n->used : !m->nodes[n->into].used)
      c.unused++;
    else if (n->fate == ONNX_TAKEN)
      c.taken++;
    else
      c.left++;
  }
  return c;
}

static void list(const struct onnx_model *m, enum onnx_fate fate, const char *title, struct str *out)
{
  bool any = false;
  for (int i = 0; i < m->nnodes; i++) {
    const struct onnx_node *n = &m->nodes[i];
    if (n->fate != fate || (fate == ONNX_LEFT && !n->used)) continue;
    if (!any) str_add(out, "%s\n", title);
    any = true;
    str_add(out, "  %s: %s\n", onnx_node_title(m->mem, m, i), n->why ? n->why : "");
  }
}

static void tensor_text(const struct onnx_value *v, struct str *out)
{
  char shape[128];
  shape_text(shape, &v->shape);
  str_add(out, "%s %s %s", v->name, onnx_type_name(v->type), v->shaped ? shape : "of a shape that is not known");
}

void onnx_report_text(const struct onnx_model *m, struct str *out)
{
  struct counts c = count(m);
  str_add(out, "%s: operator set %lld, %d nodes, %d initializers\n", m->path ? m->path : "model", (long long)m->opset, m->nnodes, m->ninits);
  for (int i = 0; i < m->ninputs; i++) str_add(out, "  input   "), tensor_text(&m->values[m->inputs[i]], out), str_add(out, "\n");
  for (int i = 0; i < m->noutputs; i++) str_add(out, "  output  "), tensor_text(&m->values[m->outputs[i]], out), str_add(out, "\n");
  str_add(out, "%d nodes taken in %d program%s, %d folded, %d left as they are, %d unsupported", c.taken, m->nprograms, m->nprograms == 1 ? "" : "s",
          c.folded, c.left, c.unsupported);
  str_add(out, c.unused ? ", %d unused\n" : "\n", c.unused);
  for (int p = 0; p < m->nprograms; p++) {
    const struct onnx_program *x = &m->programs[p];
    str_add(out, "  program %s: %d nodes, %d operators, %d inputs, %d outputs\n", x->name, x->nnodes, graph_ops(x->g), x->nin, x->nout);
  }
  list(m, ONNX_LEFT, "left as they are (run by simple functions):", out);
  list(m, ONNX_UNSUPPORTED, "unsupported:", out);
}

// ---- JSON ----

static json_t *shape_json(const struct shape *s)
{
  json_t *list = json_array();
  for (int i = 0; i < s->n; i++) json_array_append_new(list, json_integer(s->d[i]));
  return list;
}

static json_t *value_json(const struct onnx_model *m, int value)
{
  const struct onnx_value *v = &m->values[value];
  json_t *o = json_pack("{s:s}", "value", v->name);
  if (v->shaped) json_object_set_new(o, "type", json_string(onnx_type_name(v->type))), json_object_set_new(o, "shape", shape_json(&v->shape));
  return o;
}

static const char *source_of(const struct onnx_model *m, int value)
{
  const struct onnx_value *v = &m->values[value];
  if (v->init) return "initializer";
  if (v->known) return "constant";
  if (v->input) return "input";
  const struct onnx_node *n = &m->nodes[v->node];
  return n->group >= 0 ? m->programs[n->group].name : "node";
}

static json_t *operand_json(const struct onnx_model *m, int value, const char *tensor)
{
  json_t *o = value_json(m, value);
  const struct onnx_value *v = &m->values[value];
  if (tensor) json_object_set_new(o, "tensor", json_string(tensor));
  json_object_set_new(o, "from", json_string(source_of(m, value)));
  if (!strcmp(source_of(m, value), "node")) json_object_set_new(o, "node", json_integer(v->node));
  return o;
}

static json_t *program_json(const struct onnx_model *m, const struct onnx_program *p)
{
  json_t *nodes = json_array(), *in = json_array(), *out = json_array();
  int *t = NEWS(m->mem, int, MAX(p->nin, p->nout) + 1);
  for (int i = 0; i < p->nnodes; i++) json_array_append_new(nodes, json_integer(p->nodes[i]));
  graph_inputs(p->g, t);
  for (int i = 0; i < p->nin; i++) json_array_append_new(in, operand_json(m, p->in[i], p->g->tensors[t[i]].name));
  graph_outputs(p->g, t);
  for (int i = 0; i < p->nout; i++) json_array_append_new(out, operand_json(m, p->out[i], p->g->tensors[t[i]].name));
  return json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", p->name, "file", arena_printf(m->mem, "%s.mica", p->name), "nodes", nodes, "inputs", in,
                   "outputs", out);
}

static json_t *node_json(const struct onnx_model *m, int i)
{
  const struct onnx_node *n = &m->nodes[i];
  json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "name", n->name, "type", n->type, "domain", n->domain, "fate", fates[n->fate]);
  if (n->into >= 0) json_object_set_new(o, "part_of", json_integer(n->into));
  if (n->as) json_object_set_new(o, "as", json_string(n->as));
  if (n->group >= 0) json_object_set_new(o, "program", json_string(m->programs[n->group].name));
  if (n->why && n->fate != ONNX_FOLDED && n->fate != ONNX_TAKEN) json_object_set_new(o, "why", json_string(n->why));
  if (n->fate == ONNX_FOLDED || n->fate == ONNX_TAKEN) return o;
  json_t *in = json_array(), *out = json_array();
  for (int k = 0; k < n->nin; k++) json_array_append_new(in, n->in[k] < 0 ? json_null() : operand_json(m, n->in[k], NULL));
  for (int k = 0; k < n->nout; k++) json_array_append_new(out, n->out[k] < 0 ? json_null() : value_json(m, n->out[k]));
  json_object_set_new(o, "inputs", in), json_object_set_new(o, "outputs", out);
  return o;
}

static json_t *initializers_json(const struct onnx_model *m)
{
  json_t *list = json_array();
  for (int i = 0; i < m->ninits; i++) {
    const struct onnx_tensor *t = m->inits[i];
    json_t *o = json_pack("{s:s, s:s, s:o}", "value", t->name, "type", onnx_type_name(t->type), "shape", shape_json(&t->shape));
    if (t->file >= 0 && m->files[t->file].path)
      json_object_set_new(o, "file", json_string(m->files[t->file].path)), json_object_set_new(o, "offset", json_integer(t->offset)),
          json_object_set_new(o, "bytes", json_integer((json_int_t)t->bytes));
    json_array_append_new(list, o);
  }
  return list;
}

json_t *onnx_report_json(const struct onnx_model *m, const char *version)
{
  struct counts c = count(m);
  json_t *in = json_array(), *out = json_array(), *programs = json_array(), *nodes = json_array(), *order = json_array(), *set = json_object();
  for (int i = 0; i < m->ninputs; i++) json_array_append_new(in, value_json(m, m->inputs[i]));
  for (int i = 0; i < m->noutputs; i++) json_array_append_new(out, operand_json(m, m->outputs[i], NULL));
  for (int i = 0; i < m->nprograms; i++) json_array_append_new(programs, program_json(m, &m->programs[i]));
  for (int i = 0; i < m->nnodes; i++) json_array_append_new(nodes, node_json(m, i));
  for (int i = 0; i < m->nset; i++) json_object_set_new(set, m->set[i].name, json_integer(m->set[i].value));
  for (int i = 0; i < m->nsteps; i++) {
    const struct onnx_step *s = &m->steps[i];
    json_array_append_new(order, s->program >= 0 ? json_pack("{s:s}", "program", m->programs[s->program].name) : json_pack("{s:i}", "node", s->node));
  }
  json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:s, s:I, s:o}", "mica", version, "schema", 1, "kind", "onnx", "model", m->path ? m->path : "",
                           "name", m->name, "opset", (json_int_t)m->opset, "set", set);
  json_object_set_new(
      root, "counts",
      json_pack("{s:i, s:i, s:i, s:i, s:i}", "taken", c.taken, "folded", c.folded, "left", c.left, "unsupported", c.unsupported, "unused", c.unused));
  json_object_set_new(root, "inputs", in), json_object_set_new(root, "outputs", out);
  json_object_set_new(root, "programs", programs), json_object_set_new(root, "nodes", nodes);
  json_object_set_new(root, "initializers", initializers_json(m)), json_object_set_new(root, "order", order);
  return root;
}
