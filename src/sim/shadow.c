// The last writes and reads of each cell. They show reads of uninitialized memory, and races by the happens-before
// relation, as in FastTrack (Flanagan and Freund, 2009). Each agent that reads has a column of its last reads. Shared memory
// has cells for each block of a cluster; accesses before the start of the block are ignored. A global buffer that the kernel
// writes has cells too. Their epochs tell the cluster of an access: blocks are ordered only by atomics.
//
// Accesses of different lanes of a warp must be ordered by a barrier, like those of any threads. Shuffles and tensor-core
// instructions order no memory accesses (PTX, memory consistency model).
#include "sim/machine.h"

int shadow_kind(const struct sim *s, int agent) { return agent < s->cluster * s->nwarps * KINDS ? agent % KINDS : KINDS; }

void shadow_who(const struct sim *s, int agent, uint32_t epoch, char out[96])
{
  int kind = shadow_kind(s, agent), warp = agent / KINDS % s->nwarps, lane = (int)(epoch & WHOLE);
  static const char *const what[KINDS + 1] = {"", "cp.async of ", "wgmma of ", "a bulk copy of ", "a TMA load"};
  if (kind == KINDS)
    snprintf(out, 96, "%s", what[kind]);
  else if (lane >= STORED || kind == KIND_WGMMA)
    snprintf(out, 96, "%swarp %d", what[kind], warp);
  else
    snprintf(out, 96, "%sthread %d", what[kind], warp * LANES + lane);
  if (s->cluster > 1 && kind < KINDS) {
    size_t n = strlen(out);
    snprintf(out + n, 96 - n, " of block %d of the cluster", agent / KINDS / s->nwarps);
  }
}

// Has some lanes' part of a warp published the access?
static bool in_parts(const struct parts *p, int agent, uint32_t epoch)
{
  uint32_t l = epoch & WHOLE;
  for (int i = 0; i < p->n; i++)
    if (p->part[i].agent == agent && epoch <= p->part[i].epoch && (l == WHOLE || (l < LANES && p->part[i].lanes >> l & 1))) return true;
  return false;
}

bool shadow_ordered(const struct access *x, int agent, uint32_t epoch, int lane)
{
  const struct warp *w = x->w;
  int l = (int)(epoch & WHOLE);
  lane = access_lane(x, lane);
  if (epoch <= w->known.all[agent]) return true;
  if (w->known.parts->n && in_parts(w->known.parts, agent, epoch)) return true;
  if (!x->whole && w->some_lanes >> lane & 1 && (epoch <= w->some.all[agent] || in_parts(w->some.parts, agent, epoch))) return true;
  if (agent == w->agent) {
    if (l == WHOLE || (!x->whole && l == lane)) return true;
    for (int i = 0; i < w->npartial && !x->whole; i++)
      if (EPOCH(w->partial[i].clock, WHOLE) >= epoch && (w->partial[i].lanes >> l & w->partial[i].lanes >> lane & 1)) return true;
    return false;
  }
  return agent == w->cp.agent && !x->whole && l == lane && epoch <= w->cpdone;
}

// Accesses of all lanes together get a lane value of their own: WHOLE for reads, which conflict with no lane of the warp, STORED for writes, which
// belong to no single lane.
int shadow_stamp(const struct access *x, int piece) { return !x->whole ? access_lane(x, piece) : x->write ? STORED : WHOLE; }

uint16_t shadow_site(const struct access *x) { return (uint16_t)(x->a->number * TILE_OPERANDS + (int)(x->op - x->a->op)); }

static void conflict(struct access *x, int lane, int agent, uint32_t epoch, const char *did, int site)
{
  const struct sim *s = x->w->s;
  char who[96], line[40] = "";
  shadow_who(s, agent, epoch, who);
  if (site >= 0) snprintf(line, sizeof line, " (line %d)", s->atoms[site / TILE_OPERANDS].at.line);
  bool mine = shadow_kind(s, x->agent) != KIND_WARP, async = shadow_kind(s, agent) != KIND_WARP;
  report(x->w, x->a, async ? SIM_WAIT : SIM_RACE, access_lane(x, lane), "%s%s element %lld of %%%s, which %s %s%s; %s", mine ? "asynchronously " : "",
         x->write ? "writes" : "reads", (long long)(x->at[lane] / x->op->bytes), x->op->buffer->name, who, did, line,
         async ? "nothing has waited for that" : "no barrier is between");
}

static void unfenced(struct access *x, int lane, int agent, uint32_t epoch)
{
  char who[96];
  shadow_who(x->w->s, agent, epoch, who);
  report(x->w, x->a, SIM_FENCE, access_lane(x, lane),
         "lets the async proxy %s element %lld of %%%s, which %s wrote; Sync<fence.async> must stand between", x->write ? "write" : "read",
         (long long)(x->at[lane] / x->op->bytes), x->op->buffer->name, who);
}

static bool fenced(const struct access *x, int agent, uint32_t epoch)
{
  int kind = shadow_kind(x->w->s, agent);
  if (!x->async || kind == KIND_BULK || kind == KINDS || epoch <= x->w->known.async[agent]) return true;
  return x->w->some_lanes && epoch <= x->w->some.async[agent];
}

// ---- shared memory ----

// The common case: the earlier access was by this lane, or happened before.
static inline bool plain(const struct access *x, uint32_t epoch, int agent, uint32_t lane)
{
  if (x->async || x->whole || epoch <= x->w->s->start) return false;
  return epoch <= x->w->known.all[agent] || (agent == x->w->agent && (epoch & WHOLE) == lane);
}

static uint32_t *column(struct sim *s, struct shadow *h, int agent)
{
  if (!h->reads[agent]) {
    h->reads[agent] = NEWS(s->mem, uint32_t, s->ncells + 1);
    h->reader[h->nreaders++] = agent;
  }
  return h->reads[agent];
}

// Checks an access against the last write. False: an error has been reported.
static bool saw_write(struct access *x, struct shadow *h, int64_t c, int lane, bool needs)
{
  struct sim *s = x->w->s;
  uint32_t epoch = h->write[c];
  if (epoch <= s->start) {
    if (needs)
      report(x->w, x->a, SIM_UNINIT, access_lane(x, lane), "reads element %lld of %%%s, which nothing in this block has written",
             (long long)(x->at[lane] / x->op->bytes), x->op->buffer->name);
    return !needs;
  }
  int agent = h->agent[c];
  if (x->atomic && h->atomic[c]) return true;
  if (epoch > x->w->known.all[agent] && !shadow_ordered(x, agent, epoch, lane)) {
    conflict(x, lane, agent, epoch, h->atomic[c] ? "changed atomically" : "wrote", h->site[c]);
    return false;
  }
  if (x->async && !fenced(x, agent, epoch)) {
    unfenced(x, lane, agent, epoch);
    return false;
  }
  int buf = s->site_buf[h->site[c]];
  if (!needs || buf == x->op->buf) return true;
  report(x->w, x->a, SIM_UNINIT, access_lane(x, lane), "reads element %lld of %%%s, where the bytes are what was written to %%%s",
         (long long)(x->at[lane] / x->op->bytes), x->op->buffer->name, s->k->buffers[buf].name);
  return false;
}

static bool saw_reads(struct access *x, struct shadow *h, int64_t c, int lane)
{
  for (int i = 0; i < h->nlive; i++) {
    int agent = h->live[i];
    uint32_t epoch = h->reads[agent][c];
    if (epoch <= x->w->known.all[agent] || shadow_ordered(x, agent, epoch, lane)) continue;
    conflict(x, lane, agent, epoch, "reads", -1);
    return false;
  }
  return true;
}

// Checks a write by threads for another block. Earlier accesses there may only seem ordered, by mbar.leave, which orders no writes.
static bool may_send(struct access *x, const struct shadow *h, int64_t c, int lane)
{
  const struct sim *s = x->w->s;
  bool used = h->write[c] > s->start && h->agent[c] != x->agent;
  for (int i = 0; i < h->nreaders; i++) used |= h->reader[i] != x->agent && h->reads[h->reader[i]][c] > s->start;
  if (used) report(x->w, x->a, SIM_RACE, access_lane(x, lane), "moves data between blocks whose arrivals by mbar.leave order no writes");
  return !used;
}

static void shared_lane(struct access *x, struct shadow *h, uint32_t *mine, int lane)
{
  const struct sim *s = x->w->s;
  const struct sbuf *b = &s->sh[x->op->buf];
  int64_t from = b->offset + x->at[lane] - b->base;
  int64_t c = b->cell + (from >> b->shift), end = b->cell + ((from + x->bytes - 1) >> b->shift);
  uint32_t epoch = EPOCH(x->clock, shadow_stamp(x, lane));
  bool good = true;
  uint16_t site = shadow_site(x);
  const bool sends = x->write && !x->near && !x->there && s->leaves;
  for (; c <= end; c++) {
    if (good && sends) good = may_send(x, h, c, lane);
    bool quick = x->write ? h->write[c] <= s->start || plain(x, h->write[c], h->agent[c], epoch & WHOLE)
                          : plain(x, h->write[c], h->agent[c], epoch & WHOLE) && s->site_buf[h->site[c]] == x->op->buf;
    if (good && (!quick || x->atomic)) good = saw_write(x, h, c, lane, !x->write || x->atomic);
    if (!x->write) {
      mine[c] = epoch;
      continue;
    }
    if (good && h->nlive) good = saw_reads(x, h, c, lane);
    h->write[c] = epoch, h->agent[c] = (uint16_t)x->agent, h->site[c] = site, h->atomic[c] = x->atomic;
  }
}

// For a read: returns the reader's column. For a write: lists in h->live the readers some of whose reads may not have happened before.
static uint32_t *enter(struct access *x, struct shadow *h)
{
  if (!x->write) {
    uint32_t *mine = column(x->w->s, h, x->agent);
    h->latest[x->agent] = EPOCH(x->clock, WHOLE);
    return mine;
  }
  h->nlive = 0;
  for (int i = 0; i < h->nreaders; i++)
    if (h->latest[h->reader[i]] > x->w->known.all[h->reader[i]]) h->live[h->nlive++] = h->reader[i];
  return NULL;
}

void shadow_shared(struct access *x)
{
  struct cta *last = NULL;
  uint32_t *mine = NULL;
  bool quick = x->near && quick_may(x);
  for (uint32_t m = x->mask; m; m &= m - 1) {
    struct cta *c = access_home(x, __builtin_ctz(m));
    if (c != last) mine = enter(x, &c->shadow);
    last = c;
    if (quick) m = x->write ? quick_writes(x, &c->shadow, m) : quick_reads(x, &c->shadow, mine, m);
    if (!m) return;
    shared_lane(x, &c->shadow, mine, __builtin_ctz(m));
  }
}

// ---- global memory ----

// The cluster of an epoch. Clocks increase from cluster to cluster.
static int cluster_of(const struct sim *s, uint32_t epoch)
{
  int lo = 0, hi = s->nstarts - 1;
  while (lo < hi) {
    int mid = (lo + hi + 1) / 2;
    if (s->starts[mid] < epoch)
      lo = mid;
    else
      hi = mid - 1;
  }
  return lo;
}

static void other_block(struct access *x, int lane, int cluster, const char *did)
{
  const struct sim *s = x->w->s;
  report(x->w, x->a, SIM_RACE, access_lane(x, lane), "%s element %lld of %%%s, which %s %d %s; nothing orders the two blocks",
         x->write ? "writes" : "reads", (long long)(x->at[lane] / x->op->bytes), x->op->buffer->name, s->cluster > 1 ? "cluster" : "block", cluster,
         did);
}

static bool global_write(struct access *x, const struct gcell *c, int lane, bool needs, bool init)
{
  const struct sim *s = x->w->s;
  if (!c->write) {
    if (needs && !init)
      report(x->w, x->a, SIM_UNINIT, access_lane(x, lane), "reads element %lld of %%%s, which nothing has written",
             (long long)(x->at[lane] / x->op->bytes), x->op->buffer->name);
    return !needs || init;
  }
  if (x->atomic && c->atomic) return true;
  if (c->write <= s->start) {
    int cluster = cluster_of(s, c->write);
    if (sync_told(x->w, cluster, c->wagent, c->write)) return true;
    other_block(x, lane, cluster, c->atomic ? "changed atomically" : "wrote");
    return false;
  }
  if (!shadow_ordered(x, c->wagent, c->write, lane)) {
    conflict(x, lane, c->wagent, c->write, c->atomic ? "changed atomically" : "wrote", c->site);
    return false;
  }
  if (!x->async || fenced(x, c->wagent, c->write)) return true;
  unfenced(x, lane, c->wagent, c->write);
  return false;
}

static bool global_reads(struct access *x, const struct gcell *c, int lane)
{
  const struct sim *s = x->w->s;
  bool before = c->read <= s->start;
  if (before || c->many) {
    int cluster = before ? cluster_of(s, c->read) : 0;
    bool told = before && !c->many ? sync_told(x->w, cluster, c->ragent, c->read) : s->ntaken > 0;
    if (!told) other_block(x, lane, cluster, "reads");
    if (!told) return false;
  }
  if (before || shadow_ordered(x, c->ragent, c->read, lane)) return true;
  conflict(x, lane, c->ragent, c->read, "reads", -1);
  return false;
}

static void global_cell(struct access *x, const struct gbuf *b, struct gcell *c, int lane, uint32_t epoch, bool *good)
{
  uint32_t start = x->w->s->start, by = epoch & WHOLE;
  bool reads = !x->write || x->atomic;
  if (*good && !(c->write ? plain(x, c->write, c->wagent, by) : !reads || b->init)) *good = global_write(x, c, lane, reads, b->init);
  if (!x->write) {
    c->many |= c->read && c->read <= start;
    c->read = epoch, c->ragent = (uint16_t)x->agent;
    return;
  }
  if (*good && c->read && !(x->atomic && c->atomic) && (c->many || !plain(x, c->read, c->ragent, by))) *good = global_reads(x, c, lane);
  c->write = epoch, c->wagent = (uint16_t)x->agent, c->atomic = x->atomic, c->site = shadow_site(x);
  c->read = 0, c->many = false;
}

void shadow_global(struct access *x)
{
  const struct gbuf *b = &x->w->s->gl[x->op->buf];
  if (!b->cells) return;
  bool quick = quick_may(x);
  for (uint32_t m = x->mask; m; m &= m - 1) {
    if (quick && !(m = quick_global(x, b, m))) return;
    int l = __builtin_ctz(m);
    uint32_t epoch = EPOCH(x->clock, shadow_stamp(x, l));
    bool good = true;
    int64_t i = x->at[l] >> b->shift, end = (x->at[l] + x->bytes - 1) >> b->shift;
    for (; i <= end; i++) global_cell(x, b, &b->cells[i], l, epoch, &good);
  }
}
