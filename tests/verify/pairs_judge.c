// The verifier's answer on a pair, in the words of the attack: the only place that knows its certificate.
#include "pairs.h"
#include "verify/verify.h"

#include <stdio.h>

const char *const judgement_names[JUDGEMENTS] = {
    [PROVED] = "proved", [FULL] = "full", [REDUCED] = "reduced", [UNDECIDED] = "undecided", [NOT_EQUAL] = "not-equal", [REFUSED] = "refused",
};

enum judgement judge(const struct graph *a, const struct graph *b, uint64_t seed, int threads, char note[256])
{
  const struct verify_opts o = {.seed = seed, .threads = threads};
  struct certificate c;
  struct err e = {0};
  note[0] = 0;
  if (verify_equal(a, b, &o, &c, &e)) return snprintf(note, 256, "%s", e.text), REFUSED;
  snprintf(note, 256, "%s", c.note);
  static const enum judgement accepted[] = {[EVIDENCE_PROVED] = PROVED, [EVIDENCE_FULL] = FULL, [EVIDENCE_REDUCED] = REDUCED};
  return c.equal ? accepted[c.scope] : c.finding == FOUND_UNEQUAL ? NOT_EQUAL : UNDECIDED;
}
