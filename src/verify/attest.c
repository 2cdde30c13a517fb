// Prints the result of a verification: the claim, its evidence, and its limits.
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

static void tests_text(const struct certificate *c, struct str *out)
{
  str_add(out, "  %d random test%s over fields, seed %llu; the first: values mod %llu, exponents mod %llu\n", c->tests, c->tests == 1 ? "" : "s",
          (unsigned long long)c->seed, (unsigned long long)c->p, (unsigned long long)c->q);
  if (c->scope == EVIDENCE_FULL) str_add(out, "  values in float64 agree to rounding\n");
  if (c->scope == EVIDENCE_REDUCED) str_add(out, "  at %s\n", c->extents);
  if (c->delta < 1)
    str_add(out, "  unequal graphs%s pass with probability at most %.1e; degree %d, %d exponentials\n",
            c->scope == EVIDENCE_REDUCED ? " of these extents" : "", c->delta, c->degree, c->k);
  else
    str_add(out, "  no theorem bounds the probability that unequal graphs pass\n");
}

void certificate_text(const struct certificate *c, struct str *out)
{
  static const char *const heads[] = {[EVIDENCE_PROVED] = "equal: proved by normal forms at full size, for all inputs on which both are defined",
                                      [EVIDENCE_FULL] = "equal: every test at full size passed",
                                      [EVIDENCE_REDUCED] = "equal at the tested extents, not proved at full size"};
  if (!c->equal) {
    str_add(out, "%s: %s\n", finding_name(c->finding), *c->note ? c->note : "a test failed");
    str_add(out, "  seed %llu\n", (unsigned long long)c->seed);
  } else {
    str_add(out, "%s\n", heads[c->scope]);
    if (c->scope != EVIDENCE_PROVED) tests_text(c, out);
    if (*c->note) str_add(out, "  %s\n", c->note);
  }
  if (*c->proof && c->finding != FOUND_UNEQUAL) str_add(out, "  no proof by normal forms: %s\n", c->proof);
}
