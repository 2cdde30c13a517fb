// Whether the interpreter can finish the proof of a candidate in the remaining time. The work is known from the plan; earlier proofs of the job tell
// how fast it is done. A proof that cannot finish is not begun, because it would end with nothing and delay the job's end.
#include "drive/pass.h"

// Operations a second before a proof was measured, a low figure; least work of a proof that is measured: others take their time for something else.
static const double USUAL = 1e8, MEASURED = 1e7;

double proof_seconds(const struct job *j, double work)
{
  const struct proof_pace *p = &j->pace;
  return work / (p->seconds > 0 ? p->work / p->seconds : USUAL);
}

void proof_took(struct job *j, double work, double seconds)
{
  if (work >= MEASURED) j->pace.work += work, j->pace.seconds += seconds;
}

bool proof_fits(struct job *j, double work, enum stop until, const char **why)
{
  const double left = clock_until(j, until), needed = proof_seconds(j, work);
  if (needed <= left) return true;
  *why = arena_printf(j->mem, "not checked: its proof in the interpreter takes about %.2g s, and %.2g s were left", needed, left);
  return false;
}
