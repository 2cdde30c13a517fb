// Draws a graph as text: the operators before, in and after the loop of each block graph, the shape of every tile, and the
// partition of tensors into tiles. K[x, :, y.i] is a tile of K: dimension 0 is partitioned by the grid axis x, dimension 2 by
// y and, within that part, by the loop axis i.
#include "ir/print.h"

#include <string.h>

struct draw_row {
  const char *mark, *text, *shape; // "load", "k = K[x, :, y.i]", "[1, 64, 32]"
  const struct node *sub;          // a nested graph, drawn in place of a row
  int node;
};
enum draw_section { BEFORE, LOOP, END, SECTIONS };

struct drawing {
  struct ir_printer pr;
  struct draw_row *rows[SECTIONS];
  int n[SECTIONS], cap[SECTIONS];
  const char *indent;
  int kernels;
  struct draw_lines *lines; // or NULL
  int path[LEVELS];         // enclosing nodes; -1 for inner levels
};

// Records a line after it has been written.
static void note(const struct drawing *d, const struct draw_row *r)
{
  struct draw_line l = {.mark = r ? r->mark : "", .text = r ? r->text : "", .shape = r ? r->shape : ""};
  if (!d->lines) return;
  memcpy(l.node, d->path, sizeof l.node);
  if (r) l.node[d->pr.g->level] = r->node;
  l.end = d->pr.out->n;
  PUSH(d->pr.mem, d->lines->line, d->lines->n, d->lines->cap) = l;
}

static const char *text_of(struct arena *mem, struct str *s)
{
  const char *copy = arena_strdup(mem, str_text(s));
  str_free(s);
  return copy;
}

// "X[x, :, y.i]": the axes that partition or join each dimension of a tensor.
static const char *placed(struct arena *mem, const char *name, int dims, const struct graph *g, const int8_t *grid, const int8_t *loop)
{
  struct str s = {0};
  str_add(&s, "%s[", name);
  for (int d = 0; d < dims; d++) {
    const char *sep = "";
    str_add(&s, d ? ", " : "");
    for (int i = 0; i < g->ngrid; i++)
      if (grid[i] == d) str_add(&s, "%s%c", sep, "xyz"[i]), sep = ".";
    for (int i = 0; loop && i < g->nloop; i++)
      if (loop[i] == d) str_add(&s, "%s%c", sep, "ijkl"[i]), sep = ".";
    if (!*sep) str_add(&s, ":");
  }
  str_add(&s, "]");
  return text_of(mem, &s);
}

static const char *typed(struct arena *mem, const struct tensor *t)
{
  char shape[128];
  shape_text(shape, &t->shape);
  return arena_printf(mem, "%s%s", dtype_name(t->dtype), shape);
}

static enum draw_section section_of(const struct graph *g, const struct node *n)
{
  if (!g->nloop) return BEFORE;
  if (op_rows[n->op].rule == RULE_ACCUM) return LOOP;
  if (n->op == OP_SAVE) return END;
  enum phase p = n->nout ? g->tensors[n->out].phase : FIXED;
  return p == AFTER ? END : p == FIXED ? BEFORE : LOOP;
}

static const char *outputs(struct drawing *d, const struct node *n)
{
  struct str s = {0};
  for (int i = 0; i < n->nout; i++) str_add(&s, "%s%s", i ? ", " : "", print_name(&d->pr, n->out + i));
  return text_of(d->pr.mem, &s);
}

static const char *expression(struct drawing *d, const struct node *n)
{
  struct str s = {0}, *out = d->pr.out;
  d->pr.out = &s;
  print_node(&d->pr, n, 0);
  d->pr.out = out;
  return text_of(d->pr.mem, &s);
}

static const char *mark_of(struct drawing *d, const struct node *n)
{
  enum rule r = op_rows[n->op].rule;
  if (r == RULE_ACCUM) return "acc";
  if (d->pr.g->level != KERNEL) return "";
  if (r == RULE_CONST) return "const";
  if (r == RULE_INDEX) return "index";
  if (r == RULE_WORLD) return "ranks";
  if (r == RULE_VIEW || r == RULE_SPLIT) return "view";
  return arena_printf(d->pr.mem, "kernel %d", ++d->kernels);
}

static int number_of(const struct graph *g, const struct node *n)
{
  int k = 0;
  for (const struct node *m = g->nodes; m != n; m++) k += m->op == n->op;
  return k;
}

static const struct tensor *saved_to(const struct drawing *d, const struct node *n)
{
  return &d->pr.above->g->tensors[d->pr.node->out + number_of(d->pr.g, n)];
}

static const char *saved(struct drawing *d, const struct node *n)
{
  const struct tensor *t = &d->pr.g->tensors[n->in[0]];
  int to = d->pr.node->out + number_of(d->pr.g, n);
  const char *place = placed(d->pr.mem, d->pr.above->names[to], t->shape.n, d->pr.g, n->a.omap, NULL);
  return arena_printf(d->pr.mem, "%s = %s", place, print_name(&d->pr, n->in[0]));
}

static const char *loaded(struct drawing *d, const struct node *n)
{
  int from = d->pr.node->in[number_of(d->pr.g, n)];
  const char *name = d->pr.above->names[from], *own = print_iter_name(&d->pr, n->out, name);
  int dims = d->pr.above->g->tensors[from].shape.n;
  return arena_printf(d->pr.mem, "%s = %s", own, placed(d->pr.mem, name, dims, d->pr.g, n->a.imap, n->a.fmap));
}

static const char *declared(struct drawing *d, const struct node *n) { return print_name(&d->pr, n->op == OP_INPUT ? n->out : n->in[0]); }

static void add_row(struct drawing *d, const struct node *n)
{
  struct arena *mem = d->pr.mem;
  const struct graph *g = d->pr.g;
  const struct tensor *t = n->nout ? &g->tensors[n->out] : &g->tensors[n->in[0]];
  struct draw_row r = {.mark = "", .sub = n->sub ? n : NULL, .node = (int)(n - g->nodes)};
  if (n->op == OP_INPUT)
    r.mark = "input", r.text = declared(d, n);
  else if (n->op == OP_OUTPUT)
    r.mark = "output", r.text = declared(d, n);
  else if (n->op == OP_ITER)
    r.mark = "load", r.text = loaded(d, n);
  else if (n->op == OP_SAVE)
    r.mark = "save", r.text = saved(d, n), t = saved_to(d, n);
  else if (n->sub)
    r.mark = mark_of(d, n), r.text = outputs(d, n);
  else
    r.mark = mark_of(d, n), r.text = arena_printf(mem, "%s = %s", outputs(d, n), expression(d, n));
  r.shape = typed(mem, t);
  if (t->shard) {
    char whole[128];
    const struct shape s = graph_whole(g, n->out);
    shape_text(whole, &s), r.shape = arena_printf(mem, "%s of %s", r.shape, whole);
  }
  enum draw_section s = section_of(g, n);
  PUSH(mem, d->rows[s], d->n[s], d->cap[s]) = r;
}

// ---- lines -------------------------------------------------------------------------------------------

static void draw(struct drawing *d);

static const char *bytes_text(struct arena *mem, const struct graph *g)
{
  int64_t n = 0;
  for (int i = 0; i < g->ntensors; i++) n += dtype_bytes(g->tensors[i].dtype) * shape_size(&g->tensors[i].shape);
  if (n < 10 * 1024) return arena_printf(mem, "%lld bytes", (long long)n);
  return arena_printf(mem, "%lld KiB", (long long)(n / 1024));
}

static void header(struct drawing *d, const struct draw_row *r)
{
  const struct graph *g = r->sub->sub;
  const int64_t *grid = g->grid, *loop = g->loop;
  struct str *out = d->pr.out;
  bool block = g->level == BLOCK;
  str_add(out, "%s┌ %s: %lld %s", d->indent, block ? r->mark : "threads", (long long)graph_blocks(g), block ? "blocks" : "threads");
  for (int i = 0; i < g->ngrid; i++) str_add(out, "%s%c=%lld", i ? " " : " (", "xyz"[i], (long long)grid[i]);
  str_add(out, g->ngrid ? ")" : "");
  if (g->nloop) str_add(out, ", %lld iterations", (long long)graph_iterations(g));
  for (int i = 0; i < g->nloop; i++) str_add(out, "%s%c=%lld", i ? " " : " (", "ijkl"[i], (long long)loop[i]);
  str_add(out, g->nloop ? ")" : "");
  str_add(out, ", %d operator%s, %s of %s\n", graph_ops(g), graph_ops(g) == 1 ? "" : "s", bytes_text(d->pr.mem, g), block ? "tiles" : "registers");
  note(d, r);
}

static void nested(struct drawing *d, const struct draw_row *r)
{
  struct drawing inner = {0};
  print_open(&inner.pr, d->pr.mem, r->sub->sub, d->pr.out);
  inner.pr.above = &d->pr, inner.pr.node = r->sub;
  inner.indent = arena_printf(d->pr.mem, "%s│ ", d->indent);
  inner.lines = d->lines;
  memcpy(inner.path, d->path, sizeof inner.path);
  inner.path[d->pr.g->level] = r->node;
  header(d, r);
  draw(&inner);
  str_add(d->pr.out, "%s└\n", d->indent);
  note(&inner, NULL);
}

static void section(struct drawing *d, enum draw_section s, int marks, int width)
{
  for (int i = 0; i < d->n[s]; i++) {
    const struct draw_row *r = &d->rows[s][i];
    if (r->sub) {
      nested(d, r);
      continue;
    }
    str_add(d->pr.out, "%s%-*s  %-*s  %s\n", d->indent, marks, r->mark, width, r->text, r->shape);
    note(d, r);
  }
}

// Writes a line between the sections of a block; the box's side at the end of the indentation becomes a joint.
static void divide(const struct drawing *d, const char *title)
{
  size_t side = strlen("│ ");
  str_raw(d->pr.out, d->indent, strlen(d->indent) - side);
  str_add(d->pr.out, "├ %s\n", title);
  note(d, NULL);
}

static const char *loop_title(struct arena *mem, const struct graph *g)
{
  const int64_t *loop = g->loop;
  struct str s = {0};
  str_add(&s, "for");
  for (int i = 0; i < g->nloop; i++) str_add(&s, "%s %c < %lld", i ? "," : "", "ijkl"[i], (long long)loop[i]);
  return text_of(mem, &s);
}

static void draw(struct drawing *d)
{
  enum { WIDEST = 56 };
  int marks = 0, width = 0;
  for (int i = 0; i < d->pr.g->nnodes; i++) add_row(d, &d->pr.g->nodes[i]);
  for (int s = 0; s < SECTIONS; s++)
    for (int i = 0; i < d->n[s]; i++) {
      if (d->rows[s][i].sub) continue;
      marks = MAX(marks, (int)strlen(d->rows[s][i].mark));
      width = MAX(width, MIN(WIDEST, (int)strlen(d->rows[s][i].text)));
    }
  section(d, BEFORE, marks, width);
  if (d->pr.g->nloop) divide(d, loop_title(d->pr.mem, d->pr.g));
  section(d, LOOP, marks, width);
  if (d->pr.g->nloop) divide(d, "after the loop");
  section(d, END, marks, width);
}

void graph_draw_lines(struct arena *mem, const struct graph *g, struct str *out, struct draw_lines *lines)
{
  struct drawing d = {.indent = "  ", .lines = lines, .path = {-1, -1, -1}};
  print_open(&d.pr, mem, g, out);
  str_add(out, "%s", print_title(&d.pr));
  if (g->world > 1) str_add(out, ", on each of %d devices", g->world);
  str_add(out, "\n");
  note(&d, NULL);
  draw(&d);
}

void graph_draw(const struct graph *g, struct str *out)
{
  struct arena mem = {0};
  graph_draw_lines(&mem, g, out, NULL);
  arena_close(&mem);
}
