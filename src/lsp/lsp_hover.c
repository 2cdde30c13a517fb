// Hover. For an operator: its row, and the result of the call under the pointer. For a name: shape and type of the tensor. The costs are
// operations and bytes of the operator run alone, with each operand read once.
#include "front/front.h"
#include "lsp/lsp.h"
#include "tile/tile.h"

#include <string.h>

struct hovering {
  const struct lsp_document *d;
  struct lsp_word word;
  struct str text;
};

static double operations(const struct graph *g, const struct node *n)
{
  const struct tensor *out = &g->tensors[n->out];
  int64_t most = shape_size(&out->shape);
  if (op_rows[n->op].rule == RULE_CONTRACT) {
    const struct shape *x = &g->tensors[n->in[0]].shape;
    return 2.0 * (double)most * (double)x->d[x->n - 1];
  }
  for (int i = 0; i < n->nin; i++) most = MAX(most, shape_size(&g->tensors[n->in[i]].shape));
  return (double)most;
}

static double bytes(const struct graph *g, const struct node *n)
{
  double sum = 0;
  for (int i = 0; i < n->nin; i++) sum += (double)shape_size(&g->tensors[n->in[i]].shape) * dtype_bytes(g->tensors[n->in[i]].dtype);
  for (int i = 0; i < n->nout; i++) sum += (double)shape_size(&g->tensors[n->out + i].shape) * dtype_bytes(g->tensors[n->out + i].dtype);
  return sum;
}

static void tensor_line(struct hovering *h, const struct graph *g, int t)
{
  char shape[128];
  const struct tensor *x = &g->tensors[t];
  shape_text(shape, &x->shape);
  str_add(&h->text, "`%s%s%s%s`", x->name ? x->name : "", x->name ? ": " : "", dtype_name(x->dtype), shape);
  if (g->level != KERNEL) str_add(&h->text, " (one tile of a %s graph)", level_name(g->level));
  str_add(&h->text, "\n\n");
}

static void cost_line(struct hovering *h, const struct graph *g, const struct node *n)
{
  if (g->level == KERNEL && !n->sub && n->nin) str_add(&h->text, "alone: %.4g operations, %.4g bytes\n\n", operations(g, n), bytes(g, n));
}

// Describes the tensor of that name, or the result of the call at the word. Returns true if there is one.
static bool in_graph(struct hovering *h, const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    for (int k = 0; k < n->nout; k++) {
      const char *name = g->tensors[n->out + k].name;
      const bool call = !strcmp(op_rows[n->op].name, h->word.text) && lsp_place(h->d, &n->at) == h->word.from;
      if (!call && (!name || strcmp(name, h->word.text))) continue;
      return tensor_line(h, g, n->out + k), cost_line(h, g, n), true;
    }
    if (n->sub && in_graph(h, n->sub)) return true;
  }
  return false;
}

static void operator_text(struct hovering *h)
{
  enum op op;
  if (!op_find(h->word.text, &op)) return;
  const struct op_row *r = &op_rows[op];
  str_add(&h->text, "**%s**: %s\n\n", r->name, r->doc);
  for (int i = 0; i < ATTRS; i++)
    if (r->attrs >> i & 1) str_add(&h->text, "- `%s` (%s): %s\n", attr_rows[i].name, attr_rows[i].needed ? "needed" : "optional", attr_rows[i].doc);
}

static void spec_text(struct hovering *h)
{
  for (int i = 0; i < SPEC_COUNT; i++)
    if (!strcmp(tile_specs[i].name, h->word.text)) str_add(&h->text, "**%s**: %s\n", tile_specs[i].name, tile_specs[i].what);
}

static void program_text(struct hovering *h)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  struct front_model m;
  bool found = front_model_of(&mem, h->d->text, h->d->n, "", &m, &e) != OK; // diagnostics report the error
  for (int i = 0; i < MAX(m.nentries, 1) && !found; i++) {
    const struct setting entry = {.name = "entry", .entry = m.nentries ? m.entry[i].name : NULL};
    found = front_parse(&mem, h->d->text, h->d->n, "", m.nentries ? 1 : 0, &entry, &g, &e) == OK && in_graph(h, g);
  }
  operator_text(h);
  arena_close(&mem);
}

json_t *lsp_hover(const struct lsp_document *d, size_t byte)
{
  struct hovering h = {.d = d, .word = lsp_word_at(d, byte)};
  json_t *answer = NULL;
  if (*h.word.text) (lsp_is_tile(d) ? spec_text : program_text)(&h);
  if (h.text.n)
    answer =
        json_pack("{s:{s:s, s:s}, s:o}", "contents", "kind", "markdown", "value", str_text(&h.text), "range", lsp_range(d, h.word.from, h.word.to));
  str_free(&h.text);
  return answer;
}
