// A program as code of plain kernels, in node order. The workspace of a value is reused after its last reader.
#include "gpu/plain.h"
#include "base/memory.h"

#include <string.h>

enum { ALIGN = 256 };

struct plain_hole { // free memory in the workspace
  int64_t at, bytes;
};
struct plain {
  struct arena *mem;
  const struct graph *g;
  struct code *c;
  int cap_kernel, cap_launch;
  struct lower_place *place; // for each tensor
  bool *there;               // for each tensor: it has memory
  int *readers, *input;      // for each tensor: remaining readers; its number among the inputs
  struct plain_hole *hole;
  int nhole, cap_hole, nout;
};

// ---- memory ----

static int64_t bytes_of(const struct plain *p, int t) { return (shape_size(&p->g->tensors[t].shape) * 8 + ALIGN - 1) / ALIGN * ALIGN; }

// The smallest hole that is large enough, else the end of the workspace.
static int64_t take_room(struct plain *p, int64_t bytes)
{
  struct plain_hole *best = NULL;
  for (struct plain_hole *h = p->hole; h < p->hole + p->nhole; h++)
    if (h->bytes >= bytes && (!best || h->bytes < best->bytes)) best = h;
  if (!best) return p->c->workspace += bytes, p->c->workspace - bytes;
  const int64_t at = best->at;
  best->at += bytes, best->bytes -= bytes;
  if (!best->bytes) *best = p->hole[--p->nhole];
  return at;
}

static void give_room(struct plain *p, int64_t at, int64_t bytes)
{
  for (int i = 0; i < p->nhole;) {
    const struct plain_hole h = p->hole[i];
    if (h.at + h.bytes != at && at + bytes != h.at) {
      i++;
      continue;
    }
    at = MIN(at, h.at), bytes += h.bytes;
    p->hole[i] = p->hole[--p->nhole], i = 0;
  }
  PUSH(p->mem, p->hole, p->nhole, p->cap_hole) = (struct plain_hole){at, bytes};
}

static void release(struct plain *p, int t)
{
  if (--p->readers[t] || !p->there[t] || p->place[t].kind != PLACE_WORK) return;
  give_room(p, p->place[t].offset, bytes_of(p, t));
}

static struct lower_place place_of(struct plain *p, int t)
{
  if (!p->there[t]) p->place[t] = (struct lower_place){PLACE_WORK, 0, take_room(p, bytes_of(p, t))}, p->there[t] = true;
  return p->place[t];
}

// ---- launches ----

static const char *name_in(struct arena *mem, const char *text)
{
  const char *at = strstr(text, "#define PLAIN_NAME ") + strlen("#define PLAIN_NAME ");
  return arena_printf(mem, "%.*s", (int)strcspn(at, "\n"), at);
}

static int kernel_of(struct plain *p, const char *text)
{
  struct code *c = p->c;
  const char *name = name_in(p->mem, text);
  for (int i = 0; i < c->nkernel; i++)
    if (!strcmp(c->kernel[i].name, name)) return i;
  PUSH(p->mem, c->kernel, c->nkernel, p->cap_kernel) =
      (struct code_kernel){.name = name, .source = arena_strdup(p->mem, text), .cluster = 1, .registers = -1, .spilled = -1};
  return c->nkernel - 1;
}

// Arguments: the result, the flags, three operands, then values; the result stands for missing operands.
static void add_launch(struct plain *p, struct plain_kernel *k, const char *how, struct lower_place out, int nin, const struct lower_place *in)
{
  enum { BUFFERS = 5, ARGUMENTS };
  struct code_launch l = {.name = how, .how = "plain", .blocks = k->blocks, .threads = PLAIN_THREADS, .narg = ARGUMENTS, .algorithm = -1};
  l.kernel = kernel_of(p, str_text(&k->text));
  l.arg = NEWS(p->mem, struct code_arg, ARGUMENTS);
  l.arg[0].at = out, l.arg[1].at = (struct lower_place){PLACE_OUTPUT, p->nout, 0};
  for (int i = 0; i < BUFFERS - 2; i++) l.arg[2 + i].at = i < nin ? in[i] : out;
  l.arg[BUFFERS].value = arena_copy(p->mem, &k->args, sizeof k->args), l.arg[BUFFERS].bytes = sizeof k->args;
  PUSH(p->mem, p->c->launch, p->c->nlaunch, p->cap_launch) = l;
  str_free(&k->text);
}

static void fetch(struct plain *p, int t)
{
  if (p->g->nodes[p->g->tensors[t].node].op != OP_INPUT || p->there[t]) return;
  struct plain_kernel k = {0};
  const struct lower_place from = {PLACE_INPUT, p->input[t], 0};
  plain_input_text(&p->g->tensors[t], &k);
  add_launch(p, &k, "input", place_of(p, t), 1, &from);
}

static void add_node(struct plain *p, const struct node *n)
{
  struct lower_place in[3];
  struct plain_kernel k = {0};
  struct plain_launch l;
  for (int i = 0; i < n->nin; i++) fetch(p, n->in[i]);
  for (int part = 0; plain_node_text(p->g, n, part, &k, &l); part++, k = (struct plain_kernel){0}) {
    for (int i = 0; i < l.nin; i++) in[i] = place_of(p, l.in[i]);
    add_launch(p, &k, op_rows[n->op].name, place_of(p, n->out + l.result), l.nin, in);
  }
  for (int i = 0; i < n->nout; i++)
    if (!p->readers[n->out + i]) p->readers[n->out + i]++, release(p, n->out + i);
  for (int i = 0; i < n->nin; i++) release(p, n->in[i]);
}

// A tensor's first output is its memory; further outputs are copies.
static void add_output(struct plain *p, const struct node *n, int which)
{
  const int t = n->in[0];
  const struct lower_place to = {PLACE_OUTPUT, which, 0};
  fetch(p, t);
  if (p->place[t].kind == PLACE_OUTPUT && p->place[t].index == which) return;
  struct plain_kernel k = {0};
  plain_copy_text(&p->g->tensors[t], &k);
  add_launch(p, &k, "output", to, 1, &p->place[t]);
}

static int check_ops(const struct graph *g, struct err *e)
{
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes; n++)
    if (!plain_takes(n)) return err_set(e, ERR_GRAPH, n->at, "%s has no plain kernel", op_rows[n->op].name), NO;
  return OK;
}

int plain_code(struct arena *mem, const struct graph *g, enum plain_mode mode, struct code *out, struct err *e)
{
  const size_t n = (size_t)g->ntensors + 1;
  struct plain p = {.mem = mem, .g = g, .c = out, .nout = graph_outputs(g, NULL)};
  struct plain_kernel k = {0};
  int outs = 0, ins = 0;
  *out = (struct code){.world = 1};
  TRY(check_ops(g, e));
  p.place = NEWS(mem, struct lower_place, n), p.there = NEWS(mem, bool, n), p.readers = NEWS(mem, int, n), p.input = NEWS(mem, int, n);
  for (const struct node *x = g->nodes; x < g->nodes + g->nnodes; x++) {
    for (int i = 0; i < x->nin; i++) p.readers[x->in[i]]++;
    if (x->op == OP_INPUT) p.input[x->out] = ins++;
    if (x->op != OP_OUTPUT) continue;
    if (!p.there[x->in[0]]) p.place[x->in[0]] = (struct lower_place){PLACE_OUTPUT, outs, 0};
    p.there[x->in[0]] = true, outs++;
  }
  for (int t = 0; t < g->ntensors; t++) // inputs are widened to their memory
    if (g->nodes[g->tensors[t].node].op == OP_INPUT) p.there[t] = false;
  plain_mode_text(mode, &k);
  add_launch(&p, &k, "mode", (struct lower_place){PLACE_OUTPUT, p.nout, 0}, 0, NULL);
  outs = 0;
  for (const struct node *x = g->nodes; x < g->nodes + g->nnodes; x++) {
    if (x->op == OP_OUTPUT)
      add_output(&p, x, outs++);
    else if (x->op != OP_INPUT && !graph_scans(g, NULL, (int)(x - g->nodes)))
      add_node(&p, x);
  }
  return OK;
}
