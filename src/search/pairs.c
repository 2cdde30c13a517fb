// Pairs of expressions that the oracle rejects. Every schedule tests the same sums, products and quotients, and the oracle rejects nearly all. One
// byte for each pair caches the answer and saves the lookup of the normal form.
#include "search/space.h"

enum { MOST_NUMBERS = 1 << 13 }; // 32 MiB of pairs

int pairs_number(struct pairs *p, nf e)
{
  if (e >= p->nnumber) {
    uint32_t n = MAX(2 * p->nnumber, e + 1024);
    p->number = arena_grow(&p->mem, p->number, sizeof(int) * p->nnumber, sizeof(int) * n);
    p->nnumber = n;
  }
  if (!p->number[e] && p->n < MOST_NUMBERS) {
    uint8_t *row = NEWS(&p->mem, uint8_t, p->n + 1);
    PUSH(&p->mem, p->row, p->n, p->cap) = row;
    p->number[e] = p->n;
  }
  return p->number[e] - 1;
}

uint8_t *pairs_at(const struct pairs *p, int a, int b) { return a < 0 || b < 0 ? NULL : &p->row[MAX(a, b)][MIN(a, b)]; }
