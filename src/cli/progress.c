// One line on standard error that is rewritten in place, and only where a person looks: on a terminal.
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double PERIOD = 0.1; // seconds between two writings of a stage

void progress_open(struct progress *p, const struct cli *c, const char *label)
{
  *p = (struct progress){.on = !c->quiet && isatty(STDERR_FILENO), .start = now_seconds(), .label = label};
}

static void counted(char out[16], uint64_t n)
{
  if (n < 10000)
    snprintf(out, 16, "%llu", (unsigned long long)n);
  else if (n < 10000000)
    snprintf(out, 16, "%.0fk", (double)n / 1e3);
  else
    snprintf(out, 16, "%.0fM", (double)n / 1e6);
}

void progress_show(void *arg, const struct mica_progress *m)
{
  struct progress *p = arg;
  double now = now_seconds();
  if (!p->on || (now - p->last < PERIOD && m->done > 0 && m->done < 1)) return;
  char states[16], pruned[16];
  struct str s = {0};
  if (p->label) str_add(&s, "%s: ", p->label);
  str_add(&s, "%s", m->stage);
  if (m->parts > 1) str_add(&s, " %d/%d", m->part, m->parts);
  if (m->states) {
    counted(states, m->states), counted(pruned, m->pruned);
    str_add(&s, "  %s tried, %s pruned, %llu verified", states, pruned, (unsigned long long)m->verified);
  }
  if (m->best_us > 0) str_add(&s, ", best %.1f us", m->best_us);
  if (p->last <= 0 || m->done <= 0) p->start = now; // a new stage: its end is guessed from its own beginning
  if (m->done > 0.02 && m->done < 1) str_add(&s, ", %.0f s left", (now - p->start) * (1 - m->done) / m->done);
  fprintf(stderr, "\r\033[K%.110s", s.p);
  fflush(stderr);
  str_free(&s);
  p->last = now, p->shown = true;
}

void progress_clear(struct progress *p)
{
  if (p->shown) fprintf(stderr, "\r\033[K");
  p->shown = false;
}
