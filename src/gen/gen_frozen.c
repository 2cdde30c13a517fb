// Frozen inputs: what is computed of them alone is computed once, into memory that later calls read. It consists of the results of kernels that read
// nothing else, and of second operands of products, packed.
//
// The file has three functions for such a program. NAME_freeze writes the frozen memory, NAME_call reads it, and NAME, as for all programs, does both.
#include "gen/gen_driver.h"

#include <string.h>

static int64_t take(struct gen *c, int64_t bytes)
{
  const int64_t at = c->frozen;
  c->frozen += (bytes + 63) / 64 * 64;
  return at;
}

// Results of the program are written by each call, so they and what follows from them are not frozen.
void frozen_find(struct gen *c)
{
  for (int i = 0; i < c->g->nnodes && !c->rank; i++) {
    const struct node *n = &c->g->nodes[i];
    bool some = n->op == OP_INPUT && c->g->tensors[n->out].frozen, all = n->op != OP_INPUT || some;
    for (int k = 0; k < n->nin; k++) {
      const bool number = c->g->nodes[c->g->tensors[n->in[k]].node].op == OP_CONST;
      some |= c->home[n->in[k]].frozen, all &= c->home[n->in[k]].frozen || number;
    }
    for (int k = 0; k < n->nout && n->op != OP_INPUT; k++) all &= !c->home[c->home[n->out + k].root].ptr || c->home[c->home[n->out + k].root].frozen;
    for (int k = 0; k < n->nout; k++) c->home[n->out + k].frozen = some && all;
  }
}

void frozen_place(struct gen *c, int t)
{
  const struct tensor *x = &c->g->tensors[t];
  c->home[t].ptr = arena_printf(c->mem, "z%d", c->nfrozen);
  c->home[t].kept = take(c, dtype_bytes(x->dtype) * shape_size(&x->shape));
  c->nfrozen++;
}

int64_t frozen_pack(struct gen *c, const struct packed_operand *x, const struct view *from)
{
  const char *text = pack_text(c->mem, x, from);
  for (int i = 0; i < c->npacks; i++)
    if (!strcmp(c->packs[i].text, text)) return c->packs[i].offset;
  const int64_t offset = take(c, pack_bytes(x));
  PUSH(c->mem, c->packs, c->npacks, c->packs_cap) = (struct pack){text, offset};
  line(&c->freezing, 0, "#pragma omp parallel for num_threads(MICA_THREADS) schedule(static)");
  line(&c->freezing, 1, "for (int i = 0; i < MICA_THREADS; i++) {");
  line(&c->freezing, 2, "float *const to = (float *)(void *)(kept + %lld);", (long long)offset);
  line(&c->freezing, 2, "%s", text);
  line(&c->freezing, 1, "}");
  return offset;
}
