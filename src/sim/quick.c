// Fast paths of the shadow (shadow.c) for the common kind of access. It is made by threads through the generic proxy, and is not
// atomic. Earlier accesses happened before it or are by the same lane, and reads are of data written to the same buffer. Each
// function handles lanes up to the first one of another kind, whose shadow it leaves unchanged. It reports no errors. If all
// lanes have adjacent addresses, one cell each, and at most one agent wrote there, they are handled together.
#include "sim/machine.h"

bool quick_may(const struct access *x) { return !x->async && !x->atomic && !x->w->s->in->slow; }

// The agent whose accesses by the same lane are ordered: the warp, or none if all lanes access together.
static int own_agent(const struct access *x) { return x->whole ? -1 : x->w->agent; }

// Did the access with this epoch happen before, or was it made by the lane of `stamp`?
static inline bool over(const uint32_t *known, int own, uint32_t epoch, int agent, uint32_t stamp)
{
  return (epoch <= known[agent]) | ((agent == own) & (((epoch ^ stamp) & WHOLE) == 0));
}

struct quick_span {
  int64_t first, last; // cells
};
static inline struct quick_span span_of(const struct access *x, const struct sbuf *b, int lane)
{
  int64_t from = b->offset - b->base + x->at[lane];
  return (struct quick_span){b->cell + (from >> b->shift), b->cell + ((from + x->bytes - 1) >> b->shift)};
}

// The first cell of a row of lanes. -1: addresses are not adjacent, or a lane has not exactly one cell.
static int64_t row_cell(const struct access *x, const struct sbuf *b)
{
  struct quick_span c = span_of(x, b, 0);
  return x->row && x->mask == FULL && !x->whole && x->one < 0 && x->bytes == 1 << b->shift && c.first == c.last ? c.first : -1;
}

struct writes { // the last writes of a row of cells
  uint32_t least, most;
  bool same; // all were by one agent, at one site
};
static struct writes row_writes(const struct shadow *h, int64_t c)
{
  struct writes r = {UINT32_MAX, 0, true};
  unsigned differ = 0;
  for (int l = 0; l < LANES; l++) {
    r.least = MIN(r.least, h->write[c + l]), r.most = MAX(r.most, h->write[c + l]);
    differ |= (unsigned)(h->agent[c + l] ^ h->agent[c]) | (unsigned)(h->site[c + l] ^ h->site[c]);
  }
  r.same = !differ;
  return r;
}

static void row_stamp(uint32_t *epochs, uint32_t clock)
{
  for (int l = 0; l < LANES; l++) epochs[l] = EPOCH(clock, l);
}

static bool row_read(const struct access *x, const struct shadow *h, uint32_t *mine, const struct sbuf *b)
{
  const struct sim *s = x->w->s;
  int64_t c = row_cell(x, b);
  if (c < 0) return false;
  struct writes r = row_writes(h, c);
  if (!r.same || r.least <= s->start || r.most > x->w->known.all[h->agent[c]] || s->site_buf[h->site[c]] != x->op->buf) return false;
  row_stamp(mine + c, x->clock);
  return true;
}

// Reads of all lanes at any addresses, one cell each. Reads do not affect each other, so they are checked together.
static bool all_read(const struct access *x, const struct shadow *h, uint32_t *mine, const struct sbuf *b)
{
  if (x->whole || x->one >= 0 || x->bytes != 1 << b->shift) return false;
  const struct sim *s = x->w->s;
  const uint32_t *known = x->w->known.all, start = s->start;
  const int *site_buf = s->site_buf, buf = x->op->buf, own = x->w->agent;
  int32_t cell[LANES];
  unsigned bad = 0;
  for (int l = 0; l < LANES; l++) cell[l] = (int32_t)(b->cell + ((b->offset - b->base + x->at[l]) >> b->shift));
  for (int l = 0; l < LANES; l++) {
    int32_t c = cell[l];
    bad |= !((h->write[c] > start) & over(known, own, h->write[c], h->agent[c], (uint32_t)l) & (site_buf[h->site[c]] == buf));
  }
  for (int l = 0; l < LANES && !bad; l++) mine[cell[l]] = EPOCH(x->clock, l);
  return !bad;
}

static bool row_write(const struct access *x, struct shadow *h, const struct sbuf *b)
{
  int64_t c = h->nlive ? -1 : row_cell(x, b);
  if (c < 0) return false;
  struct writes r = row_writes(h, c);
  if (r.most > x->w->s->start && (!r.same || r.most > x->w->known.all[h->agent[c]])) return false;
  row_stamp(h->write + c, x->clock);
  uint16_t agent = (uint16_t)x->agent, site = shadow_site(x);
  for (int l = 0; l < LANES; l++) h->agent[c + l] = agent;
  for (int l = 0; l < LANES; l++) h->site[c + l] = site;
  memset(h->atomic + c, 0, LANES);
  return true;
}

uint32_t quick_reads(const struct access *x, const struct shadow *h, uint32_t *mine, uint32_t m)
{
  const struct sim *s = x->w->s;
  const struct sbuf b = s->sh[x->op->buf];
  const uint32_t *known = x->w->known.all, *write = h->write, start = s->start;
  const uint16_t *agent = h->agent, *site = h->site;
  const int *site_buf = s->site_buf, buf = x->op->buf, own = own_agent(x);
  if (m == FULL && (row_read(x, h, mine, &b) || all_read(x, h, mine, &b))) return 0;
  for (; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    struct quick_span c = span_of(x, &b, l);
    uint32_t stamp = EPOCH(x->clock, shadow_stamp(x, l));
    bool good = true;
    for (int64_t i = c.first; i <= c.last; i++) good &= (write[i] > start) & over(known, own, write[i], agent[i], stamp) & (site_buf[site[i]] == buf);
    if (!good) return m;
    for (int64_t i = c.first; i <= c.last; i++) mine[i] = stamp;
  }
  return 0;
}

static inline bool read_over(const struct access *x, const struct shadow *h, int64_t cell, int own, uint32_t stamp)
{
  bool good = true;
  for (int i = 0; i < h->nlive; i++) {
    int agent = h->live[i];
    good &= over(x->w->known.all, own, h->reads[agent][cell], agent, stamp);
  }
  return good;
}

uint32_t quick_writes(const struct access *x, struct shadow *h, uint32_t m)
{
  const struct sbuf b = x->w->s->sh[x->op->buf];
  const uint32_t *known = x->w->known.all, start = x->w->s->start;
  uint32_t *write = h->write;
  uint16_t *agent = h->agent, *site = h->site, by = (uint16_t)x->agent, at = shadow_site(x);
  uint8_t *atomic = h->atomic;
  const int own = own_agent(x), nlive = h->nlive;
  if (m == FULL && row_write(x, h, &b)) return 0;
  for (; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    struct quick_span c = span_of(x, &b, l);
    uint32_t stamp = EPOCH(x->clock, shadow_stamp(x, l));
    bool good = true;
    for (int64_t i = c.first; i <= c.last; i++) {
      good &= (write[i] <= start) | over(known, own, write[i], agent[i], stamp);
      if (nlive) good &= read_over(x, h, i, own, stamp);
    }
    if (!good) return m;
    for (int64_t i = c.first; i <= c.last; i++) write[i] = stamp, agent[i] = by, site[i] = at, atomic[i] = false;
  }
  return 0;
}

// Did the last access to the cell happen before this one, within the running cluster, or was there none?
static inline bool cell_over(const struct access *x, uint32_t epoch, int agent, int own, uint32_t stamp)
{
  return (epoch == 0) | ((epoch > x->w->s->start) & over(x->w->known.all, own, epoch, agent, stamp));
}

static inline void cell_write(struct gcell *c, uint32_t stamp, uint16_t agent, uint16_t site)
{
  *c = (struct gcell){.write = stamp, .wagent = agent, .ragent = c->ragent, .site = site};
}

// Handles a write to a row of cells that have been neither written nor read.
static bool row_fresh(const struct access *x, const struct gbuf *b)
{
  if (!x->write || !x->row || x->mask != FULL || x->whole || x->one >= 0 || x->bytes != 1 << b->shift) return false;
  struct gcell *c = &b->cells[x->at[0] >> b->shift];
  const uint16_t site = shadow_site(x);
  uint32_t used = 0;
  for (int l = 0; l < LANES; l++) used |= c[l].write | c[l].read;
  if (used) return false;
  for (int l = 0; l < LANES; l++) cell_write(&c[l], EPOCH(x->clock, l), (uint16_t)x->agent, site);
  return true;
}

uint32_t quick_global(const struct access *x, const struct gbuf *b, uint32_t m)
{
  struct gcell *cells = b->cells;
  const int own = own_agent(x), shift = b->shift;
  const uint16_t agent = (uint16_t)x->agent, site = shadow_site(x);
  const bool write = x->write, unwritten = write || b->init;
  if (m == FULL && row_fresh(x, b)) return 0;
  for (; m; m &= m - 1) {
    int l = __builtin_ctz(m);
    int64_t first = x->at[l] >> shift, last = (x->at[l] + x->bytes - 1) >> shift;
    uint32_t stamp = EPOCH(x->clock, shadow_stamp(x, l));
    bool good = true;
    for (int64_t i = first; i <= last; i++) {
      const struct gcell *c = &cells[i];
      good &= cell_over(x, c->write, c->wagent, own, stamp) & (unwritten | (c->write != 0));
      if (write)
        good &= !(c->many && c->read) & cell_over(x, c->read, c->ragent, own, stamp);
      else
        good &= (c->read == 0) | (c->read > x->w->s->start);
    }
    if (!good) return m;
    for (int64_t i = first; i <= last; i++) {
      if (write)
        cell_write(&cells[i], stamp, agent, site);
      else
        cells[i].read = stamp, cells[i].ragent = agent;
    }
  }
  return 0;
}
