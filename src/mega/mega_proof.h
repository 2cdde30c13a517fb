// The result of a proof of a plan (mega_prove.c). Included by mega.h.
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
struct mega_fault { // a violated condition: its place and its description
  enum mega_check check;
  int node, tile, event; // -1: none in particular
  char text[400];
};
struct mega_proof {
  int nfaults; // of the first check that fails; later checks assume it and are not run
  struct mega_fault fault[MEGA_MOST_FAULTS];
  bool done[MEGA_CHECKS];
  int64_t looked[MEGA_CHECKS]; // number of facts that each check examined
};
int mega_prove(const struct mega_plan *p, struct mega_proof *out, struct err *e); // OK: no fault; NO: faults; or out of memory
void mega_fault_add(const struct mega_plan *p, struct mega_proof *to, enum mega_check c, int node, int tile, int event, const char *fmt, ...)
    PRINTF(7, 8);
void mega_proof_text(const struct mega_proof *r, struct str *out);
json_t *mega_proof_json(const struct mega_proof *r);

#endif
