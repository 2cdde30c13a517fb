// The statements of one block. Nodes are printed in order into three texts: before the for-loop (loop-invariant loads and operators, phase FIXED),
// inside it, and after it. Views cost nothing. A saver becomes a copy if no operator can store its value directly. Scratch offsets are known only
// after everything is printed, so the declarations of tiles are made last and printed first.
#include "gen/emit.h"

static int emit_iter(struct block *b, int node)
{
  const struct place *from = &b->from[b->order[node]];
  struct place *to = &b->place[b->g->nodes[node].out];
  if (from->kind == PLACE_CONST)
    *to = *from;
  else
    *to = (struct place){PLACE_VIEW, false, 0, tile_iterator(b, node)};
  return OK;
}

static int emit_save(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  int t = n->in[0];
  enum stage st = stage_of(b, t) == INSIDE ? BEHIND : stage_of(b, t); // a running value is saved in its final state
  struct view to = tile_saved(b, node);
  const struct place *p = &b->place[t];
  if (p->kind == PLACE_VIEW) {
    tile_copy(b, &p->v, &to, st);
    return OK;
  }
  tile_fill(b, &to, p->c, st);
  return OK;
}

// Copies a view to a dense tile, for access that strides cannot express.
static struct view flat(struct block *b, int tensor, enum stage st)
{
  struct view v = b->place[tensor].v;
  struct view t = tile_new(b, arena_printf(b->mem, "%s_f%d", block_name(b, "t", tensor), b->now), &v.shape, st, false);
  tile_copy(b, &v, &t, st);
  return t;
}

static int emit_view(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  enum stage st = stage_of(b, n->out);
  struct place *out = &b->place[n->out];
  const struct place *in = &b->place[n->in[0]];
  const struct shape *s = &b->g->tensors[n->out].shape;
  *out = *in;
  if (in->kind == PLACE_CONST) return OK;
  if (n->op == OP_TRANSPOSE) {
    out->v = view_permuted(&in->v, &n->a.perm);
  } else if (n->op == OP_RESHAPE) {
    if (view_reshaped(&in->v, s, &out->v)) return OK;
    struct view f = flat(b, n->in[0], st);
    CHECK(view_reshaped(&f, s, &out->v));
  } else { // repeat
    struct nest f = nest_new(b->mem, s);
    out->v = tile_new(b, block_name(b, "t", n->out), s, st, false);
    nest_store(&f, nest_load_repeated(&f, &in->v, n->a.dim, n->a.times), &out->v, false);
    tile_use(b, &in->v, st);
    tile_print(b, &f, st);
  }
  return OK;
}

static int emit_split(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  const struct view *in = &b->place[n->in[0]].v;
  int64_t extent = b->g->tensors[n->out].shape.d[n->a.dim];
  for (int i = 0; i < n->nout; i++) {
    int64_t part = node_part(n, i);
    struct view v = view_cut(b->mem, in, n->a.dim, part * extent, extent);
    b->place[n->out + i] = (struct place){PLACE_VIEW, false, 0, v};
  }
  return OK;
}

static int emit_concat(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  enum stage st = stage_of(b, n->out);
  struct view out = tile_new(b, block_name(b, "t", n->out), &b->g->tensors[n->out].shape, st, false);
  int64_t at = 0;
  for (int i = 0; i < n->nin; i++) {
    int64_t extent = b->g->tensors[n->in[i]].shape.d[n->a.dim];
    struct view to = view_cut(b->mem, &out, n->a.dim, at, extent);
    tile_copy(b, &b->place[n->in[i]].v, &to, st);
    at += extent;
  }
  b->place[n->out] = (struct place){PLACE_VIEW, false, 0, out};
  return OK;
}

static int emit_node(struct block *b, int i)
{
  const struct node *n = &b->g->nodes[i];
  b->now = i;
  if (n->op == OP_CONST) {
    b->place[n->out] = (struct place){PLACE_CONST, false, n->a.scalar};
    return OK;
  }
  if (b->done[i] || graph_scans(b->above, b->kernel, i)) return OK; // a scan's triangle is not read
  enum stage st = n->op == OP_SAVE ? stage_of(b, n->in[0]) : accum_is(n->op) && b->iterations > 1 ? INSIDE : stage_of(b, n->out);
  block_comment(b, i, st);
  enum rule rule = op_rows[n->op].attrs & A_EXTENT ? RULE_COMPOSITE : op_rows[n->op].rule; // expand.c rewrites both kinds
  switch (rule) {
  case RULE_IO: return n->op == OP_ITER ? emit_iter(b, i) : emit_save(b, i);
  case RULE_CONST: break;
  case RULE_MAP:
  case RULE_REDUCE: return group_node(b, i);
  case RULE_CONTRACT: {
    const struct scan scan = graph_scan(b->above, b->kernel, n);
    return scan.triangle ? scan_node(b, i, &scan) : matmul_node(b, i);
  }
  case RULE_VIEW: return emit_view(b, i);
  case RULE_CONCAT: return emit_concat(b, i);
  case RULE_SPLIT: return emit_split(b, i);
  case RULE_ACCUM: return accum_node(b, i);
  case RULE_GRAPH: return group_thread(b, i);
  case RULE_AT:
  case RULE_INDEX:
  case RULE_WORLD:
  case RULE_COMPOSITE: break;
  }
  return err_set(b->e, ERR_TARGET, n->at, "%s cannot be generated inside a block", op_rows[n->op].name);
}

static void assemble(struct block *b, struct str *s)
{
  const struct graph *g = b->g;
  space_place(&b->space);
  for (int i = 0; i < b->space.n; i++) line(s, b->depth, "float *const %s = scratch + %lld;", b->names[i], (long long)b->space.buffers[i].offset / 4);
  str_raw(s, str_text(&b->text[BEFORE]), b->text[BEFORE].n);
  if (b->iterations > 1) {
    for (int i = 0; i < g->nloop; i++)
      line(s, b->depth + i, "for (int l%d = 0; l%d < %lld; l%d++)%s", i, i, (long long)g->loop[i], i, i == g->nloop - 1 ? " {" : "");
    if (b->wants_first) {
      struct str sum = {0};
      for (int i = 0; i < g->nloop; i++) str_add(&sum, "%sl%d", i ? " + " : "", i);
      line(s, b->depth + g->nloop, "const int first = %s == 0;", str_text(&sum));
      str_free(&sum);
    }
    str_raw(s, str_text(&b->text[INSIDE]), b->text[INSIDE].n);
    line(s, b->depth + g->nloop - 1, "}");
  }
  str_raw(s, str_text(&b->text[BEHIND]), b->text[BEHIND].n);
}

int block_print(struct kernel *k, int depth, int threads, struct str *s, struct err *e)
{
  struct arena *mem = k->mem;
  const struct graph *g = k->n->sub;
  struct block b = {.mem = mem, .above = k->g, .kernel = k->n, .g = g, .from = k->in, .to = k->out, .packing = &k->packing};
  b.depth = depth, b.threads = threads;
  b.space.mem = mem, b.e = e;
  b.place = NEWS(mem, struct place, g->ntensors), b.operand = NEWS(mem, struct place, g->ntensors);
  b.loads = NEWS(mem, int, g->ntensors), b.done = NEWS(mem, bool, g->nnodes), b.root = NEWS(mem, bool, g->nnodes),
  b.order = NEWS(mem, int, g->nnodes);
  b.iterations = graph_iterations(g);
  int iters = 0, saves = 0, status = OK;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_ITER)
      b.order[i] = iters++;
    else if (g->nodes[i].op == OP_SAVE)
      b.order[i] = saves++;
  const int hidden = hidden_condition(g);
  for (int i = 0; i < g->nnodes && !status; i++) {
    status = emit_node(&b, i);
    if (!status) hidden_print(&b, i, hidden);
  }
  if (!status) assemble(&b, s);
  k->scratch = b.space.total;
  for (int i = 0; i < STAGES; i++) str_free(&b.text[i]);
  return status;
}
