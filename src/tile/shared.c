// Assigns offsets in shared memory. A buffer lives from its declaration to the end of the enclosing block; the bodies of consecutive specs and loops
// reuse the same memory. A declaration under a condition is not released with it, since other threads may be under another condition at the same
// time. Mbarriers come first and are never released.
#include "tile/match.h"

enum { ALIGN = 16, ALIGN_BULK = 128, ALIGN_MBAR = 8, BANKS = 128 };

struct placing {
  struct lowering *l;
  const bool *bulk; // buffers that TMA or wgmma access
  int64_t top, most;
};

// A swizzled buffer is aligned to the size of its pattern, because TMA and wgmma swizzle bits of the address.
static int64_t alignment(const struct tile_buffer *b, bool bulk)
{
  if (!b->swizzle.bits) return bulk ? ALIGN_BULK : ALIGN;
  int shift = b->swizzle.shift < 0 ? -b->swizzle.shift : b->swizzle.shift;
  int64_t pattern = tile_types[b->type].bytes * ((int64_t)1 << (b->swizzle.bits + b->swizzle.base + shift));
  return bulk ? MAX(pattern, ALIGN_BULK) : BANKS;
}

static void put(struct placing *p, struct tile_buffer *b, int64_t align)
{
  p->top = (p->top + align - 1) / align * align;
  b->offset = p->top;
  p->top += b->bytes;
  p->most = MAX(p->most, p->top);
}

static void block(struct placing *p, int first)
{
  const struct tile_kernel *k = p->l->k;
  for (int i = first; i >= 0; i = k->stmts[i].next) {
    const struct tile_stmt *s = &k->stmts[i];
    if (s->kind == STMT_ALLOC) {
      int buf = k->views[s->view].buf;
      struct tile_buffer *b = &k->buffers[buf];
      if (b->mem == MEM_SH && b->type != TT_MBAR) put(p, b, alignment(b, p->bulk[buf]));
    }
    int64_t top = p->top;
    block(p, s->body), block(p, s->other);
    if (s->kind == STMT_FOR || s->kind == STMT_SPEC) p->top = top;
  }
}

static bool *bulk_buffers(struct lowering *l)
{
  const struct tile_kernel *k = l->k;
  bool *bulk = NEWS(l->p->mem, bool, k->nbuffers + 1);
  for (int i = 0; i < k->nspecs; i++) {
    const struct tile_atom *a = k->specs[i].atom;
    for (int j = 0; a && j < a->nout + a->nin; j++) {
      enum operand_kind kind = match_pattern(a->row, j)->kind;
      if (kind == OPND_BOX || kind == OPND_MATRIX) bulk[a->operand[j].buf] = true;
    }
  }
  return bulk;
}

int shared_place(struct lowering *l)
{
  struct tile_kernel *k = l->k;
  struct placing p = {.l = l, .bulk = bulk_buffers(l)};
  for (int i = 0; i < k->nbuffers; i++) {
    struct tile_buffer *b = &k->buffers[i];
    if (b->mem != MEM_GL) b->bytes = ex_value(b->elements) * tile_types[b->type].bytes;
    if (b->mem == MEM_SH && b->type == TT_MBAR) put(&p, b, ALIGN_MBAR);
  }
  block(&p, k->body);
  k->shared_bytes = p.most;
  const struct target *t = l->target;
  if (p.most <= t->scratch) return OK;
  return err_set(l->e, ERR_TILE, k->at, "kernel %s needs %lld bytes of shared memory; a block of %s has %lld", k->name, (long long)p.most, t->name,
                 (long long)t->scratch);
}
