// Draws graphs. A box has the text of graph_draw for the node; boxes differ in outline and colour. Nodes in a block graph's loop are drawn in a frame
// between those before and after it; a thread graph is drawn inside its box.
#include "report/html.h"

#include <string.h>

enum { MOST_NODES = 1500, MOST_CHARS = 42, LINE_HEIGHT = 16 };
static const double CHAR = 7.25, PAD_X = 12, PAD_Y = 8, FRAME = 10;

struct label {
  const char *mark, *text, *shape;
};
struct picture {
  struct html *h;
  const struct graph *g;     // of this level
  const struct label *label; // for each node
  const char *key;           // of the enclosing node, "" for a kernel graph
  struct sheet s;
  int *box;                // for each node; -1: none
  struct picture **nested; // for each node, or NULL
  const char **name;       // for each node: the second line
};

// ---- labels ----

static struct label *labels(struct html *h, const struct graph *g, const struct draw_lines *d, const int path[LEVELS], int level)
{
  struct label *l = NEWS(h->mem, struct label, g->nnodes + 1);
  for (int i = 0; i < g->nnodes; i++) l[i] = (struct label){"", op_rows[g->nodes[i].op].name, ""};
  for (int i = 0; i < d->n; i++) {
    const struct draw_line *x = &d->line[i];
    bool mine = x->node[level] >= 0 && *x->text;
    for (int k = 0; k < LEVELS; k++) mine &= k < level ? x->node[k] == path[k] : k == level || x->node[k] < 0;
    if (mine) l[x->node[level]] = (struct label){x->mark, x->text, x->shape};
  }
  return l;
}

static const char *axes_text(const struct html *h, const struct graph *g)
{
  const char *s = "";
  for (int i = 0; i < g->ngrid && i < MAX_GRID; i++) s = arena_printf(h->mem, "%s%s%c=%lld", s, i ? " " : "", "xyz"[i], (long long)g -> grid[i]);
  for (int i = 0; i < g->nloop; i++) s = arena_printf(h->mem, "%s%s%c=%lld", s, i ? " " : *s ? "; " : "", "ijkl"[i], (long long)g -> loop[i]);
  return s;
}

static bool has_frame(const struct picture *p) { return p->g->nloop && p->s.bottom[1] >= p->s.top[1]; }

// ---- what kind of box ----

static const char *kind(const struct node *n)
{
  enum rule r = op_rows[n->op].rule;
  if (n->op == OP_INPUT || n->op == OP_OUTPUT) return "io";
  if (n->op == OP_ITER) return "load";
  if (n->op == OP_SAVE) return "save";
  if (n->op == OP_BLOCK) return "block";
  if (n->op == OP_THREAD) return "thread";
  if (r == RULE_ACCUM) return "acc";
  if (r == RULE_VIEW || r == RULE_SPLIT || r == RULE_CONST || r == RULE_INDEX) return "view";
  return r == RULE_CONTRACT ? "product" : "op";
}

static int stage_of(const struct picture *p, const struct node *n)
{
  if (!p->g->nloop) return 0;
  int stage = op_rows[n->op].rule == RULE_ACCUM ? 1 : n->op == OP_SAVE ? 2 : 0;
  enum phase f = n->nout ? p->g->tensors[n->out].phase : AFTER;
  if (stage != 1) stage = f == AFTER ? 2 : f == FIXED ? 0 : 1;
  for (int i = 0; i < n->nin && n->op != OP_ITER; i++) {
    int from = p->box[p->g->tensors[n->in[i]].node];
    if (from >= 0) stage = MAX(stage, p->s.box[from].stage);
  }
  return stage;
}

// ---- boxes ----

static size_t chars(const char *s)
{
  size_t n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
  return n;
}

// At most MOST_CHARS characters.
static const char *cut(const struct html *h, const char *s)
{
  if (chars(s) <= MOST_CHARS) return s;
  size_t n = 0, k = 0;
  for (; s[n] && k < MOST_CHARS - 1; n++) k += (s[n + 1] & 0xc0) != 0x80;
  return arena_printf(h->mem, "%.*s\xe2\x80\xa6", (int)n, s);
}

static struct picture *picture_new(struct html *h, const struct graph *g, const struct draw_lines *d, int path[LEVELS], const char *key, bool inside);

static const char *key_of(const struct picture *p, int node) { return arena_printf(p->h->mem, "%s%c%d", p->key, "kbt"[p->g->level], node); }

static const char *second_line(const struct picture *p, int i)
{
  const struct node *n = &p->g->nodes[i];
  const struct label *l = &p->label[i];
  if (n->op == OP_BLOCK) return axes_text(p->h, n->sub);
  if (n->op == OP_THREAD)
    return arena_printf(p->h->mem, "%s (%s)", html_plural(p->h, (double)graph_blocks(n->sub), "thread"), axes_text(p->h, n->sub));
  const char *mark = *l->mark && strncmp(l->mark, "kernel", 6) ? arena_printf(p->h->mem, "%s ", l->mark)
                     : *l->mark                                ? arena_printf(p->h->mem, "%s: ", l->mark)
                                                               : "";
  return arena_printf(p->h->mem, "%s%s", mark, l->shape);
}

// Text of a kernel: the operator if it is a single one.
static const char *kernel_line(const struct picture *p, int i)
{
  const struct graph *sub = p->g->nodes[i].sub;
  const char *what = "block";
  for (int k = 0; k < sub->nnodes && graph_ops(sub) == 1; k++) {
    enum rule r = op_rows[sub->nodes[k].op].rule;
    if (r != RULE_IO && r != RULE_VIEW && r != RULE_CONST) what = op_rows[sub->nodes[k].op].name;
  }
  return cut(p->h, arena_printf(p->h->mem, "%s = %s", p->label[i].text, what));
}

// Text in the first line; for a kernel its number.
static const char *first_line(const struct picture *p, int i)
{
  const struct label *l = &p->label[i];
  enum op op = p->g->nodes[i].op;
  if (op == OP_BLOCK) return *l->mark ? l->mark : "kernel";
  return cut(p->h, op == OP_OUTPUT ? arena_printf(p->h->mem, "return %s", l->text) : l->text);
}

static void size_box(struct picture *p, int i, struct sheet_box *b)
{
  const struct picture *in = p->nested[i];
  size_t widest = MAX(chars(first_line(p, i)), chars(p->name[i]));
  if (p->g->nodes[i].op == OP_BLOCK) widest = MAX(widest, chars(kernel_line(p, i)));
  b->w = 2 * PAD_X + CHAR * (double)widest, b->h = 2 * PAD_Y + 2 * LINE_HEIGHT;
  if (p->g->nodes[i].op == OP_BLOCK) b->h += LINE_HEIGHT;
  if (in) b->w = MAX(b->w, in->s.w + 2 * PAD_X), b->h = in->s.h + 2 * LINE_HEIGHT + 2 * PAD_Y;
}

static void add_boxes(struct picture *p, const struct draw_lines *d, int path[LEVELS], bool inside)
{
  const struct graph *g = p->g;
  p->s.box = NEWS(p->h->mem, struct sheet_box, g->nnodes + 1);
  for (int i = 0; i < g->nnodes; i++) p->box[i] = -1;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->sub && inside) {
      path[g->level] = i;
      p->nested[i] = picture_new(p->h, n->sub, d, path, key_of(p, i), inside);
      path[g->level] = -1;
    }
    p->name[i] = second_line(p, i);
    struct sheet_box *b = &p->s.box[p->s.nboxes];
    size_box(p, i, b);
    b->stage = stage_of(p, n), b->late = n->nin == 0 || n->op == OP_ITER || n->op == OP_INPUT;
    p->box[i] = p->s.nboxes++;
  }
}

static void add_edges(struct picture *p)
{
  const struct graph *g = p->g;
  int most = 0;
  for (int i = 0; i < g->nnodes; i++) most += g->nodes[i].nin;
  p->s.edge = NEWS(p->h->mem, struct sheet_edge, most + 1);
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin && g->nodes[i].op != OP_ITER; k++)
      p->s.edge[p->s.nedges++] = (struct sheet_edge){.from = p->box[g->tensors[g->nodes[i].in[k]].node], .to = p->box[i]};
}

// The label of a loop is above its frame, so there is space above all boxes.
static void lower_all(struct sheet *s, double by)
{
  for (int i = 0; i < s->nboxes; i++) s->box[i].y += by;
  for (int i = 0; i < s->nedges; i++)
    for (int k = 0; k < s->edge[i].n; k++) s->edge[i].y[k] += by;
  for (int i = 0; i < SHEET_STAGES; i++) s->top[i] += by, s->bottom[i] += by;
  s->h += by;
}

static struct picture *picture_new(struct html *h, const struct graph *g, const struct draw_lines *d, int path[LEVELS], const char *key, bool inside)
{
  struct picture *p = NEW(h->mem, struct picture);
  *p = (struct picture){.h = h, .g = g, .key = key, .label = labels(h, g, d, path, (int)g->level)};
  p->box = NEWS(h->mem, int, g->nnodes + 1), p->nested = NEWS(h->mem, struct picture *, g->nnodes + 1);
  p->name = NEWS(h->mem, const char *, g->nnodes + 1);
  add_boxes(p, d, path, inside);
  add_edges(p);
  sheet_arrange(h->mem, &p->s);
  if (has_frame(p) && p->s.top[1] < FRAME + LINE_HEIGHT) lower_all(&p->s, FRAME + LINE_HEIGHT - p->s.top[1]);
  return p;
}

// ---- SVG ----

static void edge(const struct picture *p, const struct sheet_edge *e, int from, int to)
{
  html_add(p->h, "<path class=\"e\" data-a=\"%s\" data-b=\"%s\" d=\"M%.1f %.1f", key_of(p, from), key_of(p, to), e->x[0], e->y[0]);
  for (int i = 1; i < e->n; i++) {
    double x0 = e->x[i - 1], y0 = e->y[i - 1], x1 = e->x[i], y1 = e->y[i] - (i == e->n - 1 ? 5 : 0), bend = (y1 - y0) / 2;
    if (x0 == x1)
      html_add(p->h, "V%.1f", y1);
    else
      html_add(p->h, "C%.1f %.1f %.1f %.1f %.1f %.1f", x0, y0 + bend, x1, y1 - bend, x1, y1);
  }
  html_raw(p->h, "\" marker-end=\"url(#arrow)\"/>\n");
}

static void outline(const struct picture *p, const char *what, const struct sheet_box *b)
{
  struct html *h = p->h;
  double x = b->x, y = b->y, w = b->w, hh = b->h, in = 9;
  if (!strcmp(what, "load"))
    html_add(h, "<path d=\"M%.1f %.1fh%.1fl%.1f %.1fh%.1fz\"/>", x, y, w, -in, hh, 2 * in - w);
  else if (!strcmp(what, "save"))
    html_add(h, "<path d=\"M%.1f %.1fh%.1fl%.1f %.1fh%.1fz\"/>", x + in, y, w - 2 * in, in, hh, -w);
  else
    html_add(h, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\"/>", x, y, w, hh, !strcmp(what, "io") ? hh / 2 : 5.0);
  if (!strcmp(what, "acc") || !strcmp(what, "block"))
    html_add(h, "<rect class=\"in\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"3\"/>", x + 3, y + 3, w - 6, hh - 6);
}

static void text_at(const struct picture *p, const char *class, double x, double y, const char *text)
{
  html_add(p->h, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>", class, x, y, text);
}

static void picture_svg(const struct picture *p, bool linked);

static void box(const struct picture *p, int i, bool linked)
{
  const struct node *n = &p->g->nodes[i];
  const struct sheet_box *b = &p->s.box[p->box[i]];
  const struct label *l = &p->label[i];
  const char *what = kind(n), *full = arena_printf(p->h->mem, "%s%s%s %s", l->mark, *l->mark ? " " : "", l->text, l->shape);
  bool link = linked && n->sub;
  if (link) html_add(p->h, "<a href=\"#kernel-%d\">", i);
  html_add(p->h, "<g class=\"n %s\" data-n=\"%s\"><title>%s</title>", what, key_of(p, i), full);
  outline(p, what, b);
  double x = b->x + b->w / 2, y = b->y + PAD_Y + 12;
  text_at(p, "t", x, y, first_line(p, i));
  if (n->op == OP_BLOCK) text_at(p, "s", x, y += LINE_HEIGHT, kernel_line(p, i));
  text_at(p, "s", x, y + LINE_HEIGHT, p->name[i]);
  html_raw(p->h, "</g>");
  html_raw(p->h, link ? "</a>\n" : "\n");
  if (!p->nested[i]) return;
  html_add(p->h, "<g transform=\"translate(%.1f %.1f)\">\n", b->x + (b->w - p->nested[i]->s.w) / 2, b->y + 2 * LINE_HEIGHT + PAD_Y);
  picture_svg(p->nested[i], false);
  html_raw(p->h, "</g>\n");
}

static void loop_frame(const struct picture *p)
{
  const struct graph *g = p->g;
  if (!has_frame(p)) return;
  double y = p->s.top[1] - FRAME, hh = p->s.bottom[1] - p->s.top[1] + 2 * FRAME;
  html_add(p->h, "<g class=\"loop\"><rect x=\"2\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"8\"/>", y, p->s.w - 4, hh);
  const char *s = "for";
  for (int i = 0; i < g->nloop; i++) s = arena_printf(p->h->mem, "%s%s %c < %lld", s, i ? "," : "", "ijkl"[i], (long long)g -> loop[i]);
  html_add(p->h, "<text class=\"f\" x=\"8\" y=\"%.1f\">%s</text></g>\n", y - 4, s);
}

static void picture_svg(const struct picture *p, bool linked)
{
  int e = 0;
  loop_frame(p);
  for (int i = 0; i < p->g->nnodes; i++)
    for (int k = 0; k < p->g->nodes[i].nin && p->g->nodes[i].op != OP_ITER; k++, e++)
      edge(p, &p->s.edge[e], p->g->tensors[p->g->nodes[i].in[k]].node, i);
  for (int i = 0; i < p->g->nnodes; i++) box(p, i, linked);
}

static void figure(struct html *h, const struct picture *p, const char *id, const char *what, bool linked)
{
  html_add(h, "<div class=\"fig\" id=\"%s\" role=\"group\" tabindex=\"0\" aria-label=\"%s\">", id, what);
  html_add(h, "<svg viewBox=\"0 0 %.1f %.1f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"%s\">\n", p->s.w, p->s.h, p->s.w, p->s.h,
           what);
  picture_svg(p, linked);
  html_raw(h, "</svg></div>\n");
}

static int nodes_of(const struct graph *g)
{
  int n = g->nnodes;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) n += nodes_of(g->nodes[i].sub);
  return n;
}

static bool small(struct html *h, int nodes)
{
  if (nodes > MOST_NODES) html_add(h, "<p class=\"note\">%d nodes are too many for a picture; the text has them all.</p>\n", nodes);
  return nodes <= MOST_NODES;
}

static struct draw_lines lines_of(struct html *h, const struct graph *g)
{
  struct draw_lines d = {0};
  struct str text = {0};
  graph_draw_lines(h->mem, g, &text, &d);
  str_free(&text);
  return d;
}

void html_draw_kernels(struct html *h, const struct graph *g, const char *id, bool found)
{
  if (!small(h, g->nnodes)) return;
  struct draw_lines d = lines_of(h, g);
  int path[LEVELS] = {-1, -1, -1};
  figure(h, picture_new(h, g, &d, path, found ? "" : "p", false), id, found ? "kernel graph" : "program", found && (h->d || h->c));
}

void html_draw_block(struct html *h, const struct graph *g, int node)
{
  if (!small(h, nodes_of(g->nodes[node].sub))) return;
  struct draw_lines d = lines_of(h, g);
  int path[LEVELS] = {node, -1, -1};
  const char *key = arena_printf(h->mem, "k%d", node);
  const struct picture *p = picture_new(h, g->nodes[node].sub, &d, path, key, true);
  figure(h, p, arena_printf(h->mem, "block-%d", node), arena_printf(h->mem, "block graph of node %d", node), false);
}
