// Runs the warps of a cluster in turn, each until it waits. If none can continue and some have not ended, it is a deadlock,
// and the error lists where each warp waits. If the missing threads have ended or wait at another barrier of the block, the
// error is a divergent barrier.
#include "sim/machine.h"

static bool turn(struct sim *s, bool *left)
{
  bool moved = false;
  for (int c = 0; c < s->cluster; c++)
    for (int i = 0; i < s->nwarps; i++) {
      struct warp *w = &s->ctas[c].warps[i];
      if (w->pc < 0 || s->stopped) continue;
      *left = true;
      if (w->wait.kind != WAIT_NONE && !sync_ready(w)) continue;
      moved = true;
      warp_run(w);
    }
  return moved;
}

static bool at_barrier(const struct sim *s, const struct warp *w)
{
  return w->pc >= 0 && w->wait.kind == WAIT_GATHER && w->wait.gather != &s->cluster_gather;
}

static void lacks(const struct mbar *b, struct str *out)
{
  if (b->pending) str_add(out, "lacks %lld arrival%s", (long long)b->pending, b->pending == 1 ? "" : "s");
  const char *and = b->pending ? " and " : "";
  if (b->tx > 0) str_add(out, "%s%lld bytes", b->pending ? and : "lacks ", (long long)b->tx);
  if (b->tx < 0) str_add(out, "%sgot %lld bytes more than were expected", and, -(long long)b->tx);
  if (!b->pending && !b->tx) str_add(out, "lacks nothing");
}

static void describe(const struct sim *s, const struct warp *w, struct str *out)
{
  const struct wait *t = &w->wait;
  str_add(out, "%swarp %d", out->n ? "; " : "", w->number);
  if (s->cluster > 1) str_add(out, " of block %d of the cluster", w->cta->rank);
  str_add(out, " at line %d", s->atoms[t->atom].at.line);
  if (t->kind == WAIT_MBAR) {
    str_add(out, " for the end of phase %u of an mbarrier that ", t->mbar->phase);
    lacks(t->mbar, out);
  } else if (t->kind == WAIT_REGISTERS) {
    str_add(out, " for %u registers a thread, of which it has %d, and its block has %lld left for all threads", t->phase, w->allotted,
            (long long)w->cta->spare);
  } else if (t->kind == WAIT_GATHER && t->gather == &s->cluster_gather) {
    str_add(out, " for the cluster");
  } else {
    str_add(out, " at a barrier where %d thread%s", t->gather->threads, t->gather->threads == 1 ? " is" : "s are");
  }
}

// Does every warp that has not ended wait at a barrier?
static bool divergent(const struct sim *s)
{
  for (int c = 0; c < s->cluster; c++)
    for (int i = 0; i < s->nwarps; i++) {
      const struct warp *w = &s->ctas[c].warps[i];
      if (w->pc >= 0 && !at_barrier(s, w)) return false;
    }
  return true;
}

static void deadlock(struct sim *s)
{
  struct warp *first = NULL;
  struct str text = {0};
  int n = 0, atoms[4];
  bool barriers = divergent(s);
  for (int c = 0; c < s->cluster; c++)
    for (int i = 0; i < s->nwarps; i++) {
      struct warp *w = &s->ctas[c].warps[i];
      if (w->pc < 0) continue;
      bool known = false;
      for (int j = 0; j < n; j++) known |= atoms[j] == w->wait.atom;
      if (known || n == (int)COUNT(atoms)) continue;
      atoms[n++] = w->wait.atom;
      if (!first) first = w;
      describe(s, w, &text);
    }
  if (barriers)
    report(first, &s->atoms[first->wait.atom], SIM_DIVERGENT, 0, "waits at a barrier that not all threads of its group come to: %s", str_text(&text));
  else
    report(first, &s->atoms[first->wait.atom], SIM_DEADLOCK, 0, "waits, and nothing can go on: %s", str_text(&text));
  str_free(&text);
  s->stopped = true;
}

void sched_run(struct sim *s)
{
  for (bool left = true; left && !s->stopped;) {
    left = false;
    bool moved = turn(s, &left);
    if (left && !moved && !s->stopped) deadlock(s);
    if (stop_set(s->in->stop)) s->stopped = true;
  }
}
