// Products of a warpgroup. Its four warps issue a product together; each computes 16 rows. The product is a separate agent:
// it reads shared memory and accumulates in registers until a thread waits for its group. It sees writes to shared memory
// that a fence has made visible to the async proxy.
#include "sim/machine.h"

#define EACH for (int l = 0; l < LANES; l++)
enum { K = 16, ROWS = 16, COLS = 256, PIECE = 8 };

// A tile in shared memory. Rows r0 .. r0 + rows - 1 with all columns are read to out[r - r0 + rows c], in pieces of 16 bytes
// along the contiguous dimension.
struct wgmma_tile {
  const struct walk *it;
  int o, all_rows, r0, rows, cols;
  int64_t at;
  bool down; // contiguous along a column
};

static void pieces(const struct wgmma_tile *t, int first, int n, float *out)
{
  const struct sim_operand *op = &t->it->a->op[t->o];
  struct warp *w = t->it->w;
  struct sim_place p = {.mask = n == LANES ? FULL : (1u << n) - 1};
  struct access x;
  int r[LANES], c[LANES], across = t->down ? t->rows / PIECE : t->cols / PIECE;
  for (int i = 0; i < n; i++) {
    int at = first + i;
    r[i] = t->down ? at % across * PIECE : at / across, c[i] = t->down ? at / across : at % across * PIECE;
    p.at[i] = t->at + op->inner[t->r0 + r[i] + t->all_rows * c[i]];
  }
  for (int i = n; i < LANES; i++) p.at[i] = 0;
  access_init(&x, w, t->it->a, t->o, PIECE * op->bytes), access_elements(&x, &p);
  x.agent = w->wgmma.agent, x.clock = w->cta->quad[w->number / 4].clock;
  x.async = x.whole = true, x.one = 0;
  if (!access_reach(&x)) return;
  shadow_shared(&x);
  for (int i = 0; i < n; i++) {
    uint16_t bits[LANES] = {0};
    float row[LANES];
    if (!(x.mask >> i & 1)) continue;
    memcpy(bits, access_data(&x, i), PIECE * 2);
    num_load_float(op->type, bits, row);
    for (int j = 0; j < PIECE; j++) out[(t->down ? r[i] + j : r[i]) + t->rows * (t->down ? c[i] : c[i] + j)] = row[j];
  }
}

static void load_tile(const struct walk *it, int o, int all_rows, int r0, int rows, int cols, float *out)
{
  struct sim_place p;
  walk_place(it, o, &p);
  const int32_t *inner = it->a->op[o].inner;
  struct wgmma_tile t = {it, o, all_rows, r0, rows, cols, p.at[0], inner[1] - inner[0] == 1};
  int n = rows * cols / PIECE;
  for (int i = 0; i < n; i += LANES) pieces(&t, i, MIN(LANES, n - i), out);
}

// ---- registers ----

struct wgmma_span {
  uint8_t *regs[COLS / 2]; // registers of the fragment's elements; NULL: out of bounds
  int64_t lo, hi;
};

static bool span_of(const struct walk *it, int o, bool needs, struct wgmma_span *s)
{
  struct warp *w = it->w;
  const struct sim_operand *op = &it->a->op[o];
  const struct rbuf *r = &w->s->rf[op->buf];
  struct sim_place p;
  walk_place(it, o, &p);
  s->lo = INT64_MAX, s->hi = 0;
  for (int i = 0; i < op->ninner; i++) {
    int64_t e = p.at[0] + op->inner[i];
    if (e < 0 || e >= r->elements) {
      report(w, it->a, SIM_BOUNDS, 0, "uses register %lld of %%%s, which has %d registers", (long long)e, op->buffer->name, r->elements);
      return false;
    }
    uint32_t *mark = &w->marks[r->mark + e], missing = w->active & ~*mark;
    if (needs && missing)
      report(w, it->a, SIM_UNINIT, __builtin_ctz(missing), "reads register %lld of %%%s, which was never written", (long long)e, op->buffer->name);
    if (op->written) *mark = FULL;
    s->regs[i] = regs_at(w, op, e);
    s->lo = MIN(s->lo, e), s->hi = MAX(s->hi, e + 1);
  }
  return true;
}

static void use(const struct walk *it, int o, const struct wgmma_span *s, bool write)
{
  struct warp *w = it->w;
  struct pending *p = &w->pending[it->a->op[o].buf];
  uint32_t clock = w->cta->quad[w->number / 4].clock;
  if (p->dirty || !w->regfence)
    report(w, it->a, SIM_FENCE, 0, "uses %%%s, which was changed since the last Sync<wgmma.fence>", it->a->op[o].buffer->name);
  p->dirty = false;
  for (int i = 0; i < p->n; i++)
    if (p->range[i].lo == s->lo && p->range[i].hi == s->hi && p->range[i].write == write) {
      p->range[i].clock = clock;
      return;
    }
  if (p->n == PENDING) p->n--;
  p->range[p->n].lo = (int)s->lo, p->range[p->n].hi = (int)s->hi;
  p->range[p->n].clock = clock, p->range[p->n++].write = write;
}

static void load_regs(const struct walk *it, int o, int quarter, const struct wgmma_span *s, float *tile)
{
  const struct sim_operand *op = &it->a->op[o];
  const int32_t *tv = it->a->tv[o];
  for (int i = 0; i < op->ninner; i++) {
    float row[LANES];
    num_load_float(op->type, s->regs[i], row);
    EACH
    {
      int at = tv[i * 128 + quarter * LANES + l];
      tile[at % 64 - quarter * ROWS + ROWS * (at / 64)] = row[l];
    }
  }
}

static void store_regs(const struct walk *it, int quarter, const struct wgmma_span *s, const float *tile)
{
  const struct sim_operand *op = &it->a->op[0];
  const int32_t *tv = it->a->tv[0];
  for (int i = 0; i < op->ninner; i++) EACH
    {
      int at = tv[i * 128 + quarter * LANES + l];
      memcpy(s->regs[i] + 4 * l, &tile[at % 64 - quarter * ROWS + ROWS * (at / 64)], 4);
    }
}

static void product(const struct walk *it)
{
  struct warp *w = it->w;
  const struct instr *row = it->a->t->row;
  int quarter = w->number % 4, n = row->n;
  bool from_regs = it->a->op[1].mem == MEM_RF, sums = code_eval(w, it->a->arg)->v[0];
  float a[ROWS * K], b[K * COLS], bt[K * COLS], c[ROWS * COLS] = {0};
  struct wgmma_span sa, sc;
  memset(a, 0, sizeof a), memset(b, 0, sizeof b);
  if (!span_of(it, 0, sums, &sc) || (from_regs && !span_of(it, 1, true, &sa))) return;
  use(it, 0, &sc, true);
  if (from_regs)
    use(it, 1, &sa, false), load_regs(it, 1, quarter, &sa, a);
  else
    load_tile(it, 1, row->m, quarter * ROWS, ROWS, K, a);
  load_tile(it, 2, K, 0, K, n, b); // b[k + K n]
  for (int k = 0; k < K; k++)
    for (int j = 0; j < n; j++) bt[n * k + j] = b[k + K * j];
  if (sums) load_regs(it, 0, quarter, &sc, c);
  mma_product(ROWS, n, K, a, bt, c);
  store_regs(it, quarter, &sc, c);
  w->s->r->counts.elements += ROWS * n * K, w->s->r->counts.flops += 2 * ROWS * n * K;
}

enum go sem_wgmma(struct warp *w, const struct sim_atom *a)
{
  enum go go;
  if (!sync_quad(w, a, &go)) return go;
  for (struct walk it = walk_begin(w, a); !it.done; walk_next(&it)) product(&it);
  return GO_ON;
}
