// Layouts: construction, sizes, values and text. Nodes are in preorder, so a mode is a contiguous part of the array and shares memory with the whole.
#include "tile/lay_flat.h"

#include <string.h>

// ---- making ----

struct lay lay_int(struct lay_ctx *c, ex shape, ex stride)
{
  struct lay_node *node = NEW(c->mem, struct lay_node);
  *node = (struct lay_node){LAY_LEAF, shape, stride};
  return (struct lay){1, node};
}

struct lay lay_tuple(struct lay_ctx *c, int n, const struct lay *modes)
{
  int nodes = 1, at = 1;
  for (int i = 0; i < n; i++) nodes += modes[i].n;
  struct lay_node *node = NEWS(c->mem, struct lay_node, nodes);
  node[0].arity = n;
  for (int i = 0; i < n; at += modes[i++].n) memcpy(node + at, modes[i].node, (size_t)modes[i].n * sizeof *node);
  return (struct lay){nodes, node};
}

struct lay lay_compact(struct lay_ctx *c, struct lay shape, bool row)
{
  struct lay_node *node = arena_copy(c->mem, shape.node, (size_t)shape.n * sizeof *node);
  ex stride = EX_C(1);
  for (int i = 0; i < shape.n; i++) {
    struct lay_node *n = &node[row ? shape.n - 1 - i : i];
    if (n->arity != LAY_LEAF) continue;
    n->stride = stride;
    if (n->shape != EX_C(0)) stride = ex_mul(c->ex, stride, n->shape); // `_` has no extent
  }
  return (struct lay){shape.n, node};
}

int lay_rank(struct lay l) { return l.node->arity == LAY_LEAF ? 1 : l.node->arity; }

static int extent(const struct lay_node *node) // number of nodes in a subtree
{
  int n = 0;
  for (int open = 1; open; n++) open += node[n].arity == LAY_LEAF ? -1 : node[n].arity - 1;
  return n;
}

struct lay lay_mode(struct lay l, int i)
{
  if (l.node->arity == LAY_LEAF) return l;
  const struct lay_node *node = l.node + 1;
  while (i--) node += extent(node);
  return (struct lay){extent(node), node};
}

int lay_leaves(struct lay l, ex *shape, ex *stride, int max)
{
  int n = 0;
  for (int i = 0; i < l.n; i++) {
    if (l.node[i].arity != LAY_LEAF) continue;
    if (n == max) return -1;
    shape[n] = l.node[i].shape, stride[n++] = l.node[i].stride;
  }
  return n;
}

// ---- sizes and values ----

ex lay_size(struct lay_ctx *c, struct lay l)
{
  ex size = EX_C(1);
  for (int i = 0; i < l.n; i++)
    if (l.node[i].arity == LAY_LEAF) size = ex_mul(c->ex, size, l.node[i].shape);
  return size;
}

ex lay_cosize(struct lay_ctx *c, struct lay l)
{
  ex last = EX_C(1);
  for (int i = 0; i < l.n; i++)
    if (l.node[i].arity == LAY_LEAF) last = ex_add(c->ex, last, ex_mul(c->ex, ex_sub(c->ex, l.node[i].shape, EX_C(1)), l.node[i].stride));
  return last;
}

// The mode that extends the layout beyond its domain: the last one after coalescing.
static int last_leaf(struct lay l)
{
  int i = l.n - 1;
  while (i >= 0 && (l.node[i].arity != LAY_LEAF || l.node[i].shape == EX_C(1))) i--;
  return i;
}

ex lay_at(struct lay_ctx *c, struct lay l, ex index)
{
  ex offset = EX_C(0);
  int last = last_leaf(l);
  for (int i = 0; i <= last; i++) {
    const struct lay_node *n = &l.node[i];
    if (n->arity != LAY_LEAF) continue;
    ex coord = i == last ? index : ex_mod(c->ex, index, n->shape);
    offset = ex_add(c->ex, offset, ex_mul(c->ex, coord, n->stride));
    if (i < last) index = ex_div(c->ex, index, n->shape);
  }
  return offset;
}

ex lay_at_coords(struct lay_ctx *c, struct lay l, int n, const ex *coord)
{
  if (n == 1) return lay_at(c, l, coord[0]);
  ex offset = EX_C(0);
  for (int i = 0; i < n; i++) offset = ex_add(c->ex, offset, lay_at(c, lay_mode(l, i), coord[i]));
  return offset;
}

// Unsigned, so that numbers beyond 64 bits wrap. The overflow was reported when the layout was made.
int64_t lay_call(const struct lay *l, int64_t index)
{
  uint64_t offset = 0;
  int last = last_leaf(*l);
  for (int i = 0; i < last; i++) {
    if (l->node[i].arity != LAY_LEAF) continue;
    int64_t s = ex_value(l->node[i].shape);
    offset += (uint64_t)(index % s) * (uint64_t)ex_value(l->node[i].stride);
    index /= s;
  }
  return last < 0 ? 0 : (int64_t)(offset + (uint64_t)index * (uint64_t)ex_value(l->node[last].stride));
}

uint64_t swizzle_apply(struct swizzle s, uint64_t x)
{
  uint64_t mask = ((UINT64_C(1) << s.bits) - 1) << (s.base + MAX(0, s.shift));
  return x ^ (s.shift >= 0 ? (x & mask) >> s.shift : (x & mask) << -s.shift);
}

// ---- comparing ----

bool lay_congruent(struct lay a, struct lay b)
{
  for (int i = 0; i < a.n && i < b.n; i++)
    if (a.node[i].arity != b.node[i].arity) return false;
  return a.n == b.n;
}

bool lay_equal(struct lay a, struct lay b)
{
  if (!lay_congruent(a, b)) return false;
  for (int i = 0; i < a.n; i++)
    if (a.node[i].shape != b.node[i].shape || a.node[i].stride != b.node[i].stride) return false;
  return true;
}

bool lay_constant(struct lay l)
{
  for (int i = 0; i < l.n; i++)
    if (!ex_is_const(l.node[i].shape) || !ex_is_const(l.node[i].stride)) return false;
  return true;
}

// Uses one bit for each offset if offsets are few, else a hash table of offsets seen.
bool lay_injective(struct lay_ctx *c, struct lay l, bool *out)
{
  if (!lay_constant(l)) return lay_refuse(c, "whether %s is injective is asked of numbers only", lay_show(c, l));
  int64_t size = ex_value(lay_size(c, l));
  if (size < 0 || size > 65536) return lay_refuse(c, "%lld offsets are too many to compare", (long long)size);
  struct arena_mark mark = arena_mark(c->mem);
  int64_t slots = 4;
  while (slots < 2 * size) slots *= 2;
  int64_t *slot = NEWS(c->mem, int64_t, slots); // offset + 1
  *out = true;
  for (int64_t i = 0; i < size && *out; i++) {
    int64_t offset = lay_call(&l, i);
    int64_t at = (int64_t)(hash_mix(0, (uint64_t)offset) & (uint64_t)(slots - 1));
    while (slot[at] && slot[at] != offset + 1) at = (at + 1) & (slots - 1);
    *out = !slot[at];
    slot[at] = offset + 1;
  }
  arena_reset(c->mem, mark);
  return true;
}

// ---- text and error messages ----

static int tuple_text(const struct lay_ctx *c, const struct lay_node *n, bool stride, struct str *out)
{
  if (n->arity == LAY_LEAF) {
    if (!stride && n->shape == EX_C(0))
      str_add(out, "_");
    else
      ex_text(c->ex, stride ? n->stride : n->shape, out);
    return 1;
  }
  int at = 1;
  str_add(out, "(");
  for (int i = 0; i < n->arity; i++) {
    if (i) str_add(out, ",");
    at += tuple_text(c, n + at, stride, out);
  }
  str_add(out, ")");
  return at;
}

void lay_text(const struct lay_ctx *c, struct lay l, struct str *out)
{
  tuple_text(c, l.node, false, out);
  str_add(out, ":");
  tuple_text(c, l.node, true, out);
}

const char *lay_say(struct lay_ctx *c, ex x)
{
  struct str s = {0};
  ex_text(c->ex, x, &s);
  return str_keep(c->mem, &s);
}

const char *lay_show(struct lay_ctx *c, struct lay l)
{
  struct str s = {0};
  lay_text(c, l, &s);
  return str_keep(c->mem, &s);
}

bool lay_refuse(struct lay_ctx *c, const char *fmt, ...)
{
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  c->why = arena_strdup(c->mem, text);
  return false;
}

bool lay_kept(struct lay_ctx *c) { return ex_overflowed(c->ex) ? lay_refuse(c, "a number of the result does not fit into 62 bits") : true; }
