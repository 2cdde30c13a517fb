// Converts sets of nodes to kernel graphs, and orders the steps.
#include "onnx/onnx_lower.h"
#include "ir/print.h"

#include <ctype.h>
#include <string.h>

// ---- names that are valid in the language ----

static const char *proper(struct arena *mem, const char *name, const char *otherwise)
{
  size_t from = 0, n = strlen(name);
  while (from < n && !isalnum((unsigned char)name[from])) from++;
  char *s = arena_printf(mem, "%s%.60s", isdigit((unsigned char)name[from]) ? "t" : "", name + from);
  for (char *c = s; *c; c++)
    if ((*c & 0x80) || !isalnum((unsigned char)*c)) *c = '_';
  return print_is_name(s) ? s : otherwise;
}

static const char *fresh(struct onnx_model *m, const struct graph *g, const char *name)
{
  const char *s = proper(m->mem, name, "t");
  for (int k = 2, taken = 1; taken; k++) {
    taken = 0;
    for (int t = 0; t < g->ntensors; t++) taken |= g->tensors[t].name && !strcmp(g->tensors[t].name, s);
    if (taken) s = arena_printf(m->mem, "%.60s_%d", proper(m->mem, name, "t"), k);
  }
  return s;
}

static int name_tensor(struct onnx_model *m, struct graph *g, int t, int value, struct err *e)
{
  if (g->tensors[t].name) return OK;
  return graph_name(g, t, fresh(m, g, m->values[value].name), NOWHERE, e);
}

// ---- programs ----

// Values that are read outside of the program that computes them.
static void mark_read(const struct onnx_model *m, bool *read)
{
  for (int i = 0; i < m->nnodes; i++) {
    const struct onnx_node *n = &m->nodes[i];
    if (!n->used || n->into >= 0 || n->fate == ONNX_FOLDED) continue;
    for (int k = 0; k < n->nin; k++) {
      int by = n->in[k] < 0 ? -1 : m->values[n->in[k]].node;
      if (by >= 0 && (n->group < 0 || m->nodes[by].group != n->group)) read[n->in[k]] = true;
    }
    for (int k = 0; k < n->ncaptured; k++)
      if (onnx_find(m, n->captured[k]) >= 0) read[onnx_find(m, n->captured[k])] = true;
  }
  for (int i = 0; i < m->noutputs; i++) read[m->outputs[i]] = true;
}

// Whether the value is wider than its tensor. The widening node is left then, and this program is built again.
static bool wider(struct onnx_model *m, const struct onnx_program *p, int tensor, int value)
{
  enum dtype t;
  return onnx_type_dtype(m->values[value].type, &t) && t != p->g->tensors[tensor].dtype && onnx_leave_widening(m, p, value);
}

static int outputs(struct onnx_model *m, struct onnx_program *p, const int *tensor, const bool *read, struct err *e)
{
  int cap = 0, s = OK;
  for (int i = 0; i < p->nnodes; i++) {
    const struct onnx_node *n = &m->nodes[p->nodes[i]];
    for (int k = 0; k < n->nout && s == OK; k++) {
      int v = n->out[k];
      if (v < 0 || !read[v]) continue;
      if (wider(m, p, tensor[v], v)) continue;
      PUSH(m->mem, p->out, p->nout, cap) = v;
      s = name_tensor(m, p->g, tensor[v], v, e);
      if (s == OK) s = graph_add(p->g, OP_OUTPUT, 1, &tensor[v], NULL, NOWHERE, &(int){0}, e);
    }
  }
  return s;
}

static int build(struct onnx_model *m, int number, int *tensor, const bool *read, struct err *e)
{
  struct onnx_program *p = &m->programs[number];
  const char *name = proper(m->mem, m->name, "model");
  p->name = m->nprograms == 1 ? name : arena_printf(m->mem, "%s_%d", name, number + 1);
  p->g = graph_new(m->mem, KERNEL, p->name);
  struct onnx_lower l = {.m = m, .g = p->g, .tensor = tensor, .whole = true, .narrow = onnx_narrowed(m, p)};
  int left = m->left_again, s = OK;
  for (int i = 0; i < p->nnodes; i++)
    if (!onnx_lower_node(&l, &m->nodes[p->nodes[i]])) { // possible alone, but its index limits or types conflict with those of other nodes
      const struct onnx_node *n = &m->nodes[p->nodes[i]];
      if (!onnx_converts(m, n) && !n->row->host) return onnx_bad(m, e, "node %s: %s", onnx_node_title(m->mem, m, p->nodes[i]), l.why);
      onnx_leave(m, p->nodes[i], l.why);
    }
  p->nin = l.nin, p->in = l.in;
  bool good = m->left_again == left;
  int *in = NEWS(m->mem, int, p->nin + 1);
  graph_inputs(p->g, in);
  for (int i = 0; i < p->nin && good && s == OK; i++) s = name_tensor(m, p->g, in[i], p->in[i], e);
  if (good && s == OK) s = outputs(m, p, tensor, read, e);
  for (int i = 0; i < p->nin; i++) tensor[p->in[i]] = -1;
  for (int i = 0; i < p->nnodes; i++)
    for (int k = 0; k < m->nodes[p->nodes[i]].nout; k++)
      if (m->nodes[p->nodes[i]].out[k] >= 0) tensor[m->nodes[p->nodes[i]].out[k]] = -1;
  return s == OK && m->left_again == left ? graph_check(p->g, e) : s;
}

static void collect(struct onnx_model *m)
{
  m->programs = NEWS(m->mem, struct onnx_program, m->nprograms + 1);
  for (int i = 0; i < m->nnodes; i++)
    if (m->nodes[i].group >= 0) m->programs[m->nodes[i].group].nnodes++;
  for (int p = 0; p < m->nprograms; p++) m->programs[p].nodes = NEWS(m->mem, int, m->programs[p].nnodes), m->programs[p].nnodes = 0;
  for (int i = 0; i < m->nnodes; i++) {
    if (m->nodes[i].group < 0) continue;
    struct onnx_program *p = &m->programs[m->nodes[i].group];
    p->nodes[p->nnodes++] = i;
  }
}

// ---- order ----

struct program_order {
  struct onnx_model *m;
  bool *made; // for each value
  bool *done; // for each node
};

static bool ready(const struct program_order *o, const int *in, int n)
{
  for (int k = 0; k < n; k++) {
    const struct onnx_value *v = in[k] < 0 ? NULL : &o->m->values[in[k]];
    if (v && !v->known && v->node >= 0 && !o->made[in[k]]) return false;
  }
  return true;
}

static bool ready_captured(const struct program_order *o, const struct onnx_node *n)
{
  for (int k = 0; k < n->ncaptured; k++) {
    int v = onnx_find(o->m, n->captured[k]);
    if (v >= 0 && !ready(o, &v, 1)) return false;
  }
  return true;
}

static void finish(struct program_order *o, int node)
{
  const struct onnx_node *n = &o->m->nodes[node];
  o->done[node] = true;
  for (int k = 0; k < n->nout; k++)
    if (n->out[k] >= 0) o->made[n->out[k]] = true;
}

static bool step(struct program_order *o, int i)
{
  struct onnx_model *m = o->m;
  const struct onnx_node *n = &m->nodes[i];
  const struct onnx_program *p = n->group >= 0 ? &m->programs[n->group] : NULL;
  if (o->done[i] || !n->used || n->into >= 0 || n->fate == ONNX_FOLDED) return false;
  if (p ? !ready(o, p->in, p->nin) : !ready(o, n->in, n->nin) || !ready_captured(o, n)) return false;
  m->steps[m->nsteps++] = (struct onnx_step){n->group, p ? -1 : i};
  for (int k = 0; k < (p ? p->nnodes : 1); k++) finish(o, p ? p->nodes[k] : i);
  return true;
}

static void order(struct onnx_model *m)
{
  struct program_order o = {m, NEWS(m->mem, bool, m->nvalues + 1), NEWS(m->mem, bool, m->nnodes + 1)};
  m->steps = NEWS(m->mem, struct onnx_step, m->nnodes + 1);
  for (bool any = true; any;) { // nearly always one round: a program waits only for nodes that are later in the model
    any = false;
    for (int i = 0; i < m->nnodes; i++) any |= step(&o, i);
  }
}

int onnx_build(struct onnx_model *m, struct err *e)
{
  int *tensor = NEWS(m->mem, int, m->nvalues + 1), s = OK;
  bool *read = NEWS(m->mem, bool, m->nvalues + 1);
  for (int v = 0; v < m->nvalues; v++) tensor[v] = -1;
  collect(m);
  mark_read(m, read);
  for (int p = 0; p < m->nprograms && s == OK; p++) s = build(m, p, tensor, read, e);
  if (s == OK && !m->left_again) order(m);
  return s;
}
