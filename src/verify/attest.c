// What a verification found, for people: the claim, what it rests on, and what it does not cover.
#include "verify/proof.h"

#include <string.h>

void certificate_note(struct certificate *c, const char *fmt, ...)
{
  size_t n = strlen(c->note);
  va_list ap;
  va_start(ap, fmt);
  if (n && n + 3 < sizeof c->note) memcpy(c->note + n, "; ", 3), n += 2;
  vsnprintf(c->note + n, sizeof c->note - n, fmt, ap);
  va_end(ap);
}

void certificate_extents(struct certificate *c, const struct graph *g)
{
  size_t n = 0;
  c->extents[0] = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_INPUT) continue;
    const struct tensor *t = &g->tensors[g->nodes[i].out];
    char shape[128], one[180];
    shape_text(shape, &t->shape);
    size_t m = (size_t)snprintf(one, sizeof one, "%s%.40s %s", n ? ", " : "", t->name ? t->name : "_", shape);
    if (n + m + 6 > sizeof c->extents) {
      memcpy(c->extents + n, ", ...", 6);
      return;
    }
    memcpy(c->extents + n, one, m + 1), n += m;
  }
}

void certificate_text(const struct certificate *c, struct str *out)
{
  if (!c->equal) {
    str_add(out, "not equal: %s\n", *c->note ? c->note : "a test failed");
    str_add(out, "  %d tests passed before, seed %llu\n", c->tests, (unsigned long long)c->seed);
    return;
  }
  const char *where = !c->reduced ? " at full size" : c->full_size ? " at reduced extents, and one at full size" : " at reduced extents";
  str_add(out, "equal: %d random test%s%s, seed %llu\n", c->tests, c->tests == 1 ? "" : "s", where, (unsigned long long)c->seed);
  str_add(out, "  values mod %llu, exponents mod %llu; degree %d, %d exponentials\n", (unsigned long long)c->p,
          (unsigned long long)c->q, c->degree, c->k);
  if (c->proved) str_add(out, "  proved by normal forms at full size, for all inputs on which both are defined\n");
  else str_add(out, "  no proof by normal forms: %s\n", c->proof);
  if (c->delta < 1) str_add(out, "  unequal graphs%s pass with probability at most %.1e\n", c->reduced ? " of these extents" : "", c->delta);
  else str_add(out, "  no theorem bounds the error here\n");
  if (c->reduced || *c->note) str_add(out, "  %s%s%s\n", c->reduced ? c->extents : "", c->reduced && *c->note ? "; " : "", c->note);
}
