// Counts causes of slow kernels: bank conflicts of shared memory, sectors of global memory, bytes, instructions.
//
// Shared memory delivers 128 bytes per wavefront, one word from each of 32 banks. Accesses of 8 bytes per lane are made by
// halves of a warp, those of 16 bytes by quarters. Wavefronts above the least number are conflicts. Global memory moves
// sectors of 32 bytes.
#include "sim/machine.h"

#define EACH for (int l = 0; l < LANES; l++)

// Is each word in a bank of its own, apart from adjacent lanes with the same word?
static bool spread(const int64_t *word, int n)
{
  uint32_t banks = 0;
  int64_t last = -1;
  bool twice = false;
  for (int i = 0; i < n; i++) {
    uint32_t bank = 1u << (word[i] & 31);
    twice |= word[i] != last && banks & bank;
    banks |= bank, last = word[i];
  }
  return !twice;
}

static int wavefronts(const int64_t *word, int n)
{
  if (spread(word, n)) return 1;
  int64_t seen[LANES][LANES];
  int count[LANES] = {0}, most = 0;
  for (int i = 0; i < n; i++) {
    int bank = (int)(word[i] & 31), j = 0;
    while (j < count[bank] && seen[bank][j] != word[i]) j++;
    if (j < count[bank] || count[bank] == LANES) continue;
    seen[bank][count[bank]++] = word[i];
    most = MAX(most, count[bank]);
  }
  return most;
}

static void shared(const struct access *x)
{
  struct sim_counts *c = &x->w->s->r->counts;
  int words = MAX(1, x->bytes / 4), lanes = MAX(1, LANES / words);
  int64_t base = x->w->s->sh[x->op->buf].offset;
  if (x->row && x->mask == FULL) {
    c->wavefronts += LANES / lanes, c->wavefronts_least += LANES / lanes;
    return;
  }
  for (int first = 0; first < LANES; first += lanes) {
    int64_t word[LANES * 2];
    int n = 0;
    for (int l = first; l < first + lanes; l++)
      if (x->mask >> l & 1)
        for (int i = 0; i < words && n < LANES; i++) word[n++] = ((base + x->at[l]) >> 2) + i;
    if (!n) continue;
    c->wavefronts += wavefronts(word, n), c->wavefronts_least++;
  }
}

// Are the addresses of the lanes adjacent, or all the same?
static bool regular(const struct access *x, int64_t *end)
{
  int64_t moved = 0;
  EACH moved |= x->at[l] ^ x->at[0];
  *end = x->at[0] + (moved ? LANES : 1) * (int64_t)x->bytes;
  return x->mask == FULL && (x->row || !moved);
}

static void global(const struct access *x)
{
  struct sim_counts *c = &x->w->s->r->counts;
  int64_t last;
  if (regular(x, &last)) {
    c->sectors += ((last - 1) >> 5) - (x->at[0] >> 5) + 1;
    c->sectors_least += (last - x->at[0] + 31) / 32;
    return;
  }
  int64_t seen[64];
  int n = 0, bytes = 0;
  memset(seen, 0xff, sizeof seen);
  EACH
  {
    if (!(x->mask >> l & 1)) continue;
    bytes += x->bytes;
    for (int64_t s = x->at[l] >> 5; s <= (x->at[l] + x->bytes - 1) >> 5; s++) { // a table large enough for a warp
      int64_t *slot = &seen[s & 63];
      n += *slot != s;
      *slot = s;
    }
  }
  c->sectors += n, c->sectors_least += MIN(n, (bytes + 31) / 32); // lanes may share a sector
}

void count_access(const struct access *x)
{
  struct sim_counts *c = &x->w->s->r->counts;
  int width = __builtin_ctz((unsigned)x->bytes);
  c->bytes[x->op->mem][x->write][MIN(width, SIM_WIDTHS - 1)] += (int64_t)__builtin_popcount(x->mask) * x->bytes;
  if (x->op->mem == MEM_SH)
    shared(x);
  else
    global(x);
}

static void unwritten(struct sim *s)
{
  for (int b = 0; b < s->k->nbuffers; b++) {
    const struct gbuf *g = &s->gl[b];
    if (s->k->buffers[b].mem != MEM_GL || g->init || !s->k->buffers[b].written) continue;
    int64_t bytes = 0;
    for (int64_t i = 0; i << g->shift < g->bytes; i++)
      if (!g->cells[i].write) bytes += MIN((int64_t)1 << g->shift, g->bytes - (i << g->shift));
    s->r->counts.unwritten += bytes / tile_types[s->k->buffers[b].type].bytes;
  }
}

void count_finish(struct sim *s)
{
  unwritten(s);
  struct sim_counts *c = &s->r->counts;
  int nrows;
  const struct instr *rows = instr_rows(&nrows);
  int64_t *times = NEWS(s->mem, int64_t, nrows + 1);
  for (int i = 0; i < s->natoms; i++) {
    if (!s->atoms[i].t->row) continue;
    times[s->atoms[i].t->row - rows] += s->atoms[i].issued;
    c->issued += s->atoms[i].issued;
  }
  c->rows = NEWS(s->mem, struct sim_row, nrows + 1);
  for (int i = 0; i < nrows; i++)
    if (times[i]) c->rows[c->nrows++] = (struct sim_row){rows[i].name, times[i]};
}

static void line(struct str *out, const char *what, int64_t n, const char *unit)
{
  str_add(out, "  %-36s %14lld%s%s\n", what, (long long)n, *unit ? " " : "", unit);
}

void sim_print_counts(const struct sim_report *r, struct str *out)
{
  const struct sim_counts *c = &r->counts;
  static const char *const verbs[2] = {"loads", "stores"};
  line(out, "blocks", r->blocks, "");
  line(out, "instructions of warps", c->issued, "");
  line(out, "floating-point operations", c->flops, "");
  line(out, "warps at barriers", c->barriers, "");
  for (int m = MEM_GL; m <= MEM_SH; m++)
    for (int v = 0; v < 2; v++)
      for (int i = 0; i < SIM_WIDTHS; i++) {
        char what[64];
        snprintf(what, sizeof what, "%s %s, %d bytes a lane", m == MEM_GL ? "global" : "shared", verbs[v], 1 << i);
        if (c->bytes[m][v][i]) line(out, what, c->bytes[m][v][i], "bytes");
      }
  for (int v = 0; v < 2; v++)
    if (c->bulk_bytes[v]) line(out, v ? "TMA stores" : "TMA loads", c->bulk_bytes[v], "bytes");
  if (c->unwritten) line(out, "outputs that nothing has written", c->unwritten, "elements");
  line(out, "sectors of global memory", c->sectors, "");
  line(out, "  more than the least", c->sectors - c->sectors_least, "");
  line(out, "wavefronts of shared memory", c->wavefronts, "");
  line(out, "  bank conflicts", c->wavefronts - c->wavefronts_least, "");
  str_add(out, "  instruction                            times issued\n");
  for (int i = 0; i < c->nrows; i++) line(out, c->rows[i].name, c->rows[i].times, "");
}
