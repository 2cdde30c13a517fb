// Progress on standard error. On a terminal one line is updated in place; elsewhere a line is written occasionally, so that a long run is not silent
// in a log.
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double PERIOD = 0.1;             // seconds between two updates of a stage
static const double SILENCE = 5, SELDOM = 15; // seconds before the first line of a log, and between its lines
enum { NARROWEST = 20 };                      // columns

void progress_open(struct progress *p, const struct cli *c, const char *label)
{
  const double now = now_seconds();
  *p = (struct progress){.on = !c->quiet, .columns = terminal_columns(STDERR_FILENO), .start = now, .label = label};
  if (!p->columns) p->last = now + SILENCE - SELDOM;
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

static void words(const struct progress *p, const struct mica_progress *m, double left, struct str *s)
{
  char states[16], pruned[16], best[32];
  if (p->label) str_add(s, "%s: ", p->label);
  str_add(s, "%s", m->stage);
  if (m->parts > 1) str_add(s, " %d/%d", m->part, m->parts);
  if (m->done > 0 && m->done < 1) str_add(s, ", %.0f%%", 100 * m->done);
  if (left > 0) str_add(s, ", %.0f s left", left);
  if (m->best_us > 0) str_add(s, ", best %s", report_duration(best, m->best_us));
  if (m->states) {
    counted(states, m->states), counted(pruned, m->pruned);
    str_add(s, "  %s tried, %s pruned, %llu verified", states, pruned, (unsigned long long)m->verified);
  }
}

// Number of bytes of the text that fit into that many columns.
static int fitting(const char *s, int columns)
{
  int n = 0;
  for (int k = 0; s[n]; n++) {
    k += ((unsigned char)s[n] & 0xc0) != 0x80;
    if (k > columns) break;
  }
  return n;
}

void progress_show(void *arg, const struct mica_progress *m)
{
  struct progress *p = arg;
  double now = now_seconds();
  if (m->done <= 0 || strncmp(p->stage, m->stage, sizeof p->stage - 1)) { // each stage's end is estimated from its own start
    p->start = now;
    snprintf(p->stage, sizeof p->stage, "%s", m->stage);
  }
  const double left = m->done > 0.02 && m->done < 1 ? (now - p->start) * (1 - m->done) / m->done : 0;
  const bool within = m->done > 0 && m->done < 1;
  if (!p->on || now - p->last < (p->columns ? within ? PERIOD : 0 : SELDOM)) return;
  struct str s = {0};
  words(p, m, left, &s);
  if (p->columns) {
    p->columns = terminal_columns(STDERR_FILENO); // a window may change
    fprintf(stderr, "\r\033[K%.*s", fitting(str_text(&s), MAX(p->columns, NARROWEST) - 1), str_text(&s));
  } else
    fprintf(stderr, "mica: %s\n", str_text(&s));
  fflush(stderr);
  str_free(&s);
  p->last = now, p->shown = p->columns > 0;
}

void progress_clear(struct progress *p)
{
  if (p->shown) fprintf(stderr, "\r\033[K");
  p->shown = false;
}
