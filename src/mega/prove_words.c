// Checks that tagged words are never torn, that tensors have no more versions than writes, and that no step writes data that are loaded as constant.
#include "mega/mega_prove.h"

enum { EPOCH_BYTES = 4, WORD_SURE = 8, WORD_LARGE = 16 }; // bytes; a target may tear a word of 16, but none tears a word of 8

// Elements of a row are packed into words, and each group of elements begins a new word. Checks that tiles begin and end between words.
static void tiles_keep_words(struct mega_proving *v, int tensor, int per_word)
{
  const struct mega_plan *p = v->p;
  const struct mega_held *h = &p->held[tensor];
  int last = p->m->tensor[tensor].rank - 1;
  int64_t group = h->word_group;
  struct mega_region r = {0};
  for (int w = 0; w < h->nwrites; w++) {
    const struct mega_op *op = mega_op_of(p, h->write[w]);
    for (int a = 0; a < op->spec.naccess; a++) {
      if (!op->spec.access[a].out || op->arg[op->spec.access[a].arg] != tensor) continue;
      for (int t = 0; t < op->tiles; t++) {
        r.n = 0;
        mega_region(v->mem, p->m, op, a, p->node[h->write[w]].layer, t, 1, &r);
        bool cut = r.box[0].lo[last] % group % per_word || r.box[0].hi[last] % group % per_word;
        if (cut)
          mega_fault_add(p, v->out, MEGA_CHECK_WORDS, h->write[w], t, -1, "writes elements %lld to %lld of %s, but a word holds %d",
                         (long long)r.box[0].lo[last], (long long)r.box[0].hi[last] - 1, p->m->tensor[tensor].name, per_word);
      }
    }
  }
}

int mega_prove_words(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  (void)e;
  for (int t = 0; t < p->m->ntensors; t++) {
    const struct mega_held *h = &p->held[t];
    if (h->nwrites && (h->versions < 1 || h->versions > MAX(h->nwrites, 1)))
      mega_fault_add(p, v->out, MEGA_CHECK_WORDS, h->write[0], -1, -1, "%s has %d versions, but %d writes in each step", p->m->tensor[t].name,
                     h->versions, h->nwrites);
    int element = mega_bytes(p->m->tensor[t].type), payload = h->word_bytes - EPOCH_BYTES, writer = h->nwrites ? h->write[0] : -1;
    if (!h->tagged) continue;
    v->out->looked[MEGA_CHECK_WORDS]++;
    if (p->m->tensor[t].kind != MEGA_ACTIVATION)
      mega_fault_add(p, v->out, MEGA_CHECK_WORDS, writer, -1, -1, "%s is tagged, but has no versions", p->m->tensor[t].name);
    else if (h->word_bytes != WORD_SURE && !(h->word_bytes == WORD_LARGE && p->whole_words))
      mega_fault_add(p, v->out, MEGA_CHECK_WORDS, writer, -1, -1, "words of %s have %d bytes, which the target may tear", p->m->tensor[t].name,
                     h->word_bytes);
    else if (payload < element || payload % element || h->word_group < 1)
      mega_fault_add(p, v->out, MEGA_CHECK_WORDS, writer, -1, -1, "words of %s do not have a whole number of elements", p->m->tensor[t].name);
    else
      tiles_keep_words(v, t, payload / element);
  }
  return OK;
}

int mega_prove_loads(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  (void)e;
  for (int n = 0; n < p->nnodes; n++) {
    const struct mega_op *op = mega_op_of(p, n);
    for (int a = 0; a < op->spec.naccess; a++) {
      int t = op->arg[op->spec.access[a].arg];
      const struct mega_held *h = &p->held[t];
      if (op->spec.access[a].out) continue;
      v->out->looked[MEGA_CHECK_LOADS]++;
      if (h->nwrites && h->load == MEGA_LOAD_CONST)
        mega_fault_add(p, v->out, MEGA_CHECK_LOADS, n, -1, -1, "reads %s by constant loads, but the step writes it", p->m->tensor[t].name);
      if (h->tagged != (h->load == MEGA_LOAD_WORDS))
        mega_fault_add(p, v->out, MEGA_CHECK_LOADS, n, -1, -1,
                       h->tagged ? "reads %s without its epochs" : "reads %s as words with epochs, but it has none", p->m->tensor[t].name);
    }
  }
  return OK;
}
