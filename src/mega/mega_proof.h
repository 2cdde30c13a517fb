// The answer of a proof of a plan (mega_prove.c). Included by mega.h.
#ifndef MICA_MEGA_PROOF_H
#define MICA_MEGA_PROOF_H

#include "base/base.h"

#include <jansson.h>

struct mega_plan;
enum mega_check {
#define CHECK_ROW(id, ...) MEGA_CHECK_##id,
#include "mega/check.def"
  MEGA_CHECKS
};
struct mega_check_row {
  const char *name, *what;
};
extern const struct mega_check_row mega_checks[];
enum { MEGA_MOST_FAULTS = 8 };
struct mega_fault { // what does not hold: where, in words
  enum mega_check check;
  int node, tile, event; // -1: it is about none
  char text[400];
};
struct mega_proof {
  int nfaults; // of the first check that fails; the checks after it stand on it and are not done
  struct mega_fault fault[MEGA_MOST_FAULTS];
  bool done[MEGA_CHECKS];
  int64_t looked[MEGA_CHECKS]; // facts that a check looked at
};
int mega_prove(const struct mega_plan *p, struct mega_proof *out, struct err *e); // OK: no fault; NO; or no memory
void mega_fault_add(const struct mega_plan *p, struct mega_proof *to, enum mega_check c, int node, int tile, int event, const char *fmt, ...)
    PRINTF(7, 8);
void mega_proof_text(const struct mega_proof *r, struct str *out);
json_t *mega_proof_json(const struct mega_proof *r);

#endif
