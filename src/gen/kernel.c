// A BLOCK node as a function: its grid is a loop over OpenMP threads, each with its own scratch.
#include "gen/emit.h"

enum { PIECES = 16, SHORT = 8 << 20 }; // pieces per thread; bytes of tensors up to which a kernel is short

// Threads take pieces of adjacent blocks dynamically, so other threads take the share of a thread that the system delays. In a short kernel each
// thread keeps its own part, which its cache may still contain from the previous call.
static const char *schedule(const struct kernel *k)
{
  const struct graph *g = k->n->sub;
  int64_t bytes = 0;
  for (int i = 0; i < k->n->nin; i++) bytes += shape_size(&k->in[i].v.shape) * dtype_bytes(k->in[i].v.dtype);
  for (int i = 0; i < k->n->nout; i++) bytes += shape_size(&k->out[i].shape) * dtype_bytes(k->out[i].dtype);
  if (bytes < SHORT && graph_iterations(g) == 1) return "static";
  return arena_printf(k->mem, "dynamic, %lld", (long long)MAX(1, graph_blocks(g) / ((int64_t)k->threads * PIECES)));
}

// Loops over the grid axes that have more than one block.
static void grid_loops(const struct kernel *k, struct str *s, int depth, bool many)
{
  const struct graph *g = k->n->sub;
  int loops = 0;
  for (int i = 0; i < g->ngrid; i++) loops += g->grid[i] > 1;
  for (int i = 0; i < g->ngrid; i++)
    if (g->grid[i] == 1) line(s, depth, "const ptrdiff_t x%d = 0;", i), line(s, depth, "(void)x%d;", i);
  if (loops && many) line(s, depth, "#pragma omp for schedule(%s)%s", schedule(k), loops == 3 ? " collapse(3)" : loops == 2 ? " collapse(2)" : "");
  for (int i = 0; i < g->ngrid; i++)
    if (g->grid[i] > 1) line(s, depth++, "for (ptrdiff_t x%d = 0; x%d < %lld; x%d++)", i, i, (long long)g->grid[i], i);
}

// Declares one flag for each output that uses non-temporal stores.
static bool flags(const struct kernel *k, struct str *s)
{
  bool any = false;
  for (int i = 0; i < k->n->nout; i++) {
    if (!k->out[i].past) continue;
    line(s, 1, "const int %s = m_past(r%d);", k->out[i].past, i);
    line(s, 1, "(void)%s;", k->out[i].past);
    any = true;
  }
  return any;
}

// Whether blocks run one after the other, and threads share the rows of each of their statements: there are fewer blocks than threads, and statements are
// loops over tiles.
static bool shares_rows(const struct kernel *k)
{
  const struct graph *g = k->n->sub;
  bool loops = graph_blocks(g) < k->threads && graph_iterations(g) == 1;
  for (int i = 0; i < g->nnodes && loops; i++) {
    const enum rule r = op_rows[g->nodes[i].op].rule;
    loops = r == RULE_IO || r == RULE_CONST || r == RULE_MAP || r == RULE_REDUCE || r == RULE_GRAPH;
  }
  return loops;
}

int kernel_print(struct kernel *k, struct str *s, struct err *e)
{
  const struct graph *g = k->n->sub;
  struct str body = {0};
  const bool shared = shares_rows(k), many = graph_blocks(g) > 1 && !shared;
  int depth = many ? 2 : 1, loops = 0;
  for (int i = 0; i < g->ngrid; i++) loops += g->grid[i] > 1;
  int status = block_print(k, depth + loops, shared ? k->threads : 0, &body, e);
  if (!status) {
    bool past = flags(k, s);
    if (many) line(s, 0, "#pragma omp parallel num_threads(MICA_THREADS)"), line(s, 1, "{");
    if (k->scratch) line(s, depth, "float *const scratch = memory + %lld * M_THREAD;", (long long)k->scratch / 4);
    grid_loops(k, s, depth, many);
    line(s, depth + loops - 1, "{");
    str_raw(s, str_text(&body), body.n);
    line(s, depth + loops - 1, "}");
    if (past) line(s, depth, "m_fence();");
    if (many) line(s, 1, "}");
  }
  str_free(&body);
  return status;
}
