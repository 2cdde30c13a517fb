// Addresses of operands: indices of elements, addresses in shared memory, descriptors of wgmma. A swizzle affects only low
// bits of an index. Terms that are multiples of the swizzle's span are added outside of it, so pieces of an unrolled loop
// differ by a constant in the address.
#include "cuda/cu_print.h"

#include <stdlib.h>

static struct ex_pool *pool(struct printer *w) { return w->s.p->ex; }

// The terms of x that are multiples of `span`, as a sum.
static ex whole_spans(struct printer *w, ex x, int64_t span)
{
  if (ex_is_const(x)) return EX_C(ex_value(x) / span * span);
  const struct ex_node *n = ex_node(pool(w), x);
  if (n->kind != EX_SUM) return ex_divides(pool(w), EX_C(span), x) ? x : EX_C(0);
  ex r = EX_C(n->c / span * span);
  for (int i = 0; i < n->n; i++) {
    ex t = ex_mul(pool(w), EX_C(n->coef[i]), n->arg[i]);
    if (ex_divides(pool(w), EX_C(span), t)) r = ex_add(pool(w), r, t);
  }
  return r;
}

static ex swizzled(struct printer *w, int buf, ex index)
{
  struct swizzle s = w->s.k->buffers[buf].swizzle;
  if (!s.bits) return index;
  int from = s.base + MAX(0, s.shift), to = s.base + MAX(0, -s.shift); // lowest bit that is read, lowest bit that is changed
  ex outside = whole_spans(w, index, (int64_t)1 << (s.base + abs(s.shift) + s.bits)), x = ex_sub(pool(w), index, outside);
  ex key = ex_mod(pool(w), ex_div(pool(w), x, EX_C((int64_t)1 << from)), EX_C((int64_t)1 << s.bits));
  return ex_add(pool(w), outside, ex_xor(pool(w), x, ex_mul(pool(w), key, EX_C((int64_t)1 << to))));
}

const char *cu_element(struct printer *w, int buf, ex index)
{
  return arena_printf(w->s.mem, "%s[%s]", w->s.buffers[buf], cu_value(w, swizzled(w, buf, index), L_ANY));
}

// Printed as the address of an element, not as a sum of addresses, so that the compiler sees the bits of the whole index.
// `swizzle` is false for boxes of TMA and matrices of wgmma: the hardware swizzles the address of each element.
const char *cu_shared(struct printer *w, const struct tile_operand *o, ex index, bool swizzle)
{
  const char *element = swizzle ? cu_element(w, o->buf, index) : arena_printf(w->s.mem, "%s[%s]", w->s.buffers[o->buf], cu_value(w, index, L_ANY));
  const char *text = arena_printf(w->s.mem, "mica_shared(&%s)", element);
  ex peer = w->s.k->views[o->view].peer;
  return peer == EX_C(-1) ? text : arena_printf(w->s.mem, "mica_peer(%s, %s)", text, cu_value(w, peer, L_ANY));
}

// A matrix descriptor of wgmma: fields of 14 bits in units of 16 bytes, the swizzle in the two highest bits. The offset of the
// matrix within its buffer is added to the buffer's descriptor, which is the same for all steps of a product. Bits of a shared
// address from 18 on may have the block's rank in its cluster; they are not part of the descriptor.
const char *cu_descriptor(struct printer *w, const struct tile_operand *o, ex index)
{
  const struct tile_desc *d = &o->desc;
  uint64_t mode = d->swizzle_bytes == 128 ? 1 : d->swizzle_bytes == 64 ? 2 : d->swizzle_bytes == 32 ? 3 : 0;
  uint64_t rest = (uint64_t)(d->lead >> 4 & 0x3fff) << 16 | (uint64_t)(d->step >> 4 & 0x3fff) << 32 | mode << 62;
  int64_t unit = 16 / tile_types[w->s.k->buffers[o->buf].type].bytes;
  const char *units = cu_value(w, ex_div(pool(w), index, EX_C(unit)), L_ANY);
  return arena_printf(w->s.mem, "mica_matrix(mica_shared(&%s[0]), %s, 0x%llxull)", w->s.buffers[o->buf], units, (unsigned long long)rest);
}
