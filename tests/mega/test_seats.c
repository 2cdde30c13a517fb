// Plans that serve requests: proved wherever rows stand, and refused where seats are wrong. Planted mistakes are found. Sampling by integers.
#include "megas.h"
#include "mega/mega_prove.h"
#include "thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "mega/mega_noise.h"

enum { PLANS = 24, SEATS = 6, SLOTS = 64 };

static int from(struct rng *r, int lo, int hi) { return lo + (int)rng_below(r, (uint64_t)(hi - lo + 1)); }

static void plan_of(struct arena *mem, struct rng *r, struct mega_plan **p)
{
  struct err e = {0};
  struct mega_config c = {
      .name = "served", .layers = from(r, 1, 3), .kv = from(r, 1, 3), .dim = 8, .eps = 1e-5, .theta = 10000, .type = mega_type_find("f32")};
  struct mega_sizes s = {
      .rows = from(r, 1, 12), .workers = from(r, 1, 12), .stages = from(r, 1, 9), .stage_bytes = 2048 << from(r, 0, 3), .context = -1};
  struct mega_model *m;
  c.heads = c.kv * from(r, 1, 3), c.hidden = 4 * from(r, 3, 9), c.inner = from(r, 9, 60), c.vocab = from(r, 40, 150), c.qk_norm = rng_below(r, 2);
  s.pages = 1 + s.rows * from(r, 1, 3), s.parts = from(r, 1, 4), s.merge = (enum mega_merge)from(r, 0, 2);
  if (mega_from_config(mem, &c, &s, &m, &e) != OK || mega_plan_make(mem, m, p, &e) != OK) fail_msg("%s", e.text);
}

// Requests of one row or of a part of a prompt, with pages in any order; some rows have none.
static void random_seats(struct arena *mem, struct rng *r, const struct mega_model *m, struct mega_seat *s, int *npages)
{
  int64_t slots, all = mega_pages_of(m, &slots), share = (all - 1) / m->rows;
  bool moves = rng_below(r, 2);
  int32_t *pages = NEWS(mem, int32_t, all);
  for (int64_t i = 0; i + 1 < all; i++) {
    int64_t k = (int64_t)rng_below(r, (uint64_t)(i + 1));
    pages[i] = pages[k], pages[k] = (int32_t)(i + 1);
  }
  for (int row = 0, n; row < m->rows; row += n) {
    int64_t past = from(r, 0, (int)(share * slots) - 14);
    bool live = rng_below(r, 4);
    n = moves || !live ? 1 : from(r, 1, MIN(6, m->rows - row));
    for (int i = 0; i < n; i++) {
      npages[row + i] = live ? (int)share : 0;
      s[row + i] = live ? (struct mega_seat){true, moves, past + i, past, i, pages + row * share} : (struct mega_seat){.position = row + i};
    }
  }
}

static const struct mega_op *ordered(const struct mega_model *m)
{
  for (int o = 0; o < m->nops; o++)
    if (mega_ordered(m, &m->op[o])) return &m->op[o];
  return NULL;
}

// That of the seats, or any.
static const uint16_t *random_order(struct arena *mem, struct rng *r, const struct mega_model *m, const struct mega_seat *s)
{
  const struct mega_op *op = ordered(m);
  if (!op) return NULL;
  uint16_t *order = NEWS(mem, uint16_t, op->tiles);
  mega_order_make(mem, m, op, s, order);
  for (int i = rng_below(r, 2) ? op->tiles - 1 : 0; i > 0; i--) {
    int k = (int)rng_below(r, (uint64_t)i + 1);
    uint16_t swap = order[i];
    order[i] = order[k], order[k] = swap;
  }
  return order;
}

static void any_seats_are_proved(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= PLANS; seed += (uint64_t)thinned(5)) {
    struct rng r = {seed};
    struct arena mem = {0};
    struct mega_plan *p;
    struct mega_proof proof;
    struct err e = {0};
    plan_of(&mem, &r, &p);
    if (mega_prove(p, &proof, &e) != OK) fail_msg("seed %d: %s", (int)seed, e.text);
    struct mega_model *m = (struct mega_model *)p->m;
    struct mega_seat *s = NEWS(&mem, struct mega_seat, m->rows);
    int *npages = NEWS(&mem, int, m->rows);
    for (int i = 0; i < SEATS; i++) {
      random_seats(&mem, &r, m, s, npages);
      if (mega_seats_check(m, s, npages, 1, &e) != OK) fail_msg("seed %d, seats %d: %s", (int)seed, i, e.text);
      m->seat = s, m->order = random_order(&mem, &r, m, s);
      if (mega_prove(p, &proof, &e) != OK) fail_msg("seed %d, seats %d: %s", (int)seed, i, e.text);
    }
    arena_close(&mem);
  }
}

// ---- the order of attention's tiles ----

// Each tile has one place. All workers have nearly the same number of positions, where lengths are spread evenly and where one request is long.
static void orders_are_even(void **state)
{
  enum { ROWS = 64, WORKERS = 132, MOST = 4096 };
  (void)state;
  for (int one = 0; one < 2; one++) {
    struct arena mem = {0};
    struct err e = {0};
    struct mega_config *config;
    struct mega_model *m;
    struct mega_plan *p;
    struct mega_seat seat[ROWS];
    struct mega_sizes s = {.rows = ROWS, .workers = WORKERS, .pages = 300, .parts = 4, .context = -1};
    if (mega_load(&mem, MICA_SOURCE_DIR "/examples/mega/tiny_llama.json", &s, &m, &config, &e) != OK || mega_plan_make(&mem, m, &p, &e) != OK)
      fail_msg("%s", e.text);
    const struct mega_op *op = ordered(m);
    int n = op->tiles, of = n / ROWS, most = 0, node = 0;
    int64_t all = 0, longest = 0;
    uint16_t *order = NEWS(&mem, uint16_t, n);
    bool *seen = NEWS(&mem, bool, n);
    for (int r = 0; r < ROWS; r++) {
      int64_t at = one ? (r ? 128 : MOST) : 128 + (MOST - 128) * ((r * 37) % ROWS) / (ROWS - 1);
      seat[r] = (struct mega_seat){.live = true, .position = at, .past = at}, all += at * of;
    }
    mega_order_make(&mem, m, op, seat, order);
    for (int i = 0; i < n; i++) assert_false(seen[order[i]]), seen[order[i]] = true;
    while (mega_op_of(p, node) != op) node++;
    for (int w = 0; w < WORKERS; w++) {
      struct mega_span share = mega_share(p, node, w);
      int64_t sum = 0;
      for (int i = share.lo; i < share.hi; i++) sum += seat[order[i] / of].past;
      longest = MAX(longest, sum), most = MAX(most, share.hi - share.lo);
    }
    double even = (double)all / n * most; // of a worker with most tiles, if all were equally long
    assert_true((double)longest < (one ? MOST + 1.0 * 128 * most : 1.04 * even));
    arena_close(&mem);
  }
}

// ---- what a proof of unequal positions finds ----

struct served {
  struct arena mem;
  struct mega_model *m;
  struct mega_plan *p;
};

static void serve_open_plan(struct served *x, int parts)
{
  struct err e = {0};
  struct mega_config *config;
  struct mega_sizes s = {.rows = 3, .workers = 4, .pages = 10, .parts = parts, .context = -1};
  *x = (struct served){0};
  if (mega_load(&x->mem, MICA_SOURCE_DIR "/examples/mega/tiny_llama.json", &s, &x->m, &config, &e) != OK ||
      mega_plan_make(&x->mem, x->m, &x->p, &e) != OK)
    fail_msg("%s", e.text);
}

static void found(struct served *x, enum mega_check check)
{
  struct mega_proof proof;
  struct err e = {0};
  assert_int_equal(mega_prove(x->p, &proof, &e), NO);
  if (proof.fault[0].check != check) fail_msg("%s: %s", mega_checks[proof.fault[0].check].name, proof.fault[0].text);
  arena_close(&x->mem);
}

// mega_seats_check rejects each of these steps, and the proof of each reports the fault.
static void wrong_seats(void **state)
{
  static const int32_t one[] = {1, 2}, same[] = {2, 1}, far[] = {12, 13};
  static const struct {
    struct mega_seat seat[3];
    enum mega_check check;
  } bad[] = {
      // Two requests write one page at one position; a request reads what another writes in this step; its page does not exist.
      {{{true, true, 5, 5, 0, one}, {true, true, 5, 5, 0, one}, {0}}, MEGA_CHECK_REGIONS},
      {{{true, false, 65, 65, 0, one}, {true, false, 0, 0, 0, same}, {0}}, MEGA_CHECK_REGIONS},
      {{{true, false, 0, 0, 0, same}, {true, false, 65, 65, 0, one}, {0}}, MEGA_CHECK_REGIONS},
      {{{true, true, 5, 5, 0, far}, {.position = 1}, {.position = 2}}, MEGA_CHECK_REGIONS},
      // A prompt whose second row takes the first for what an earlier launch wrote.
      {{{true, false, 5, 5, 0, one}, {true, false, 6, 6, 0, one}, {.position = 2}}, MEGA_CHECK_REGIONS},
  };
  (void)state;
  for (size_t i = 0; i < COUNT(bad); i++) {
    static const int npages[] = {2, 2, 2};
    struct served x;
    struct err e = {0};
    struct mega_proof proof;
    serve_open_plan(&x, 1);
    assert_int_equal(mega_seats_check(x.m, bad[i].seat, npages, 1, &e), USER);
    x.m->seat = bad[i].seat;
    if (mega_prove(x.p, &proof, &(struct err){0}) != NO) fail_msg("seats %d are proved", (int)i);
    if (proof.fault[0].check != bad[i].check) fail_msg("seats %d: %s: %s", (int)i, mega_checks[proof.fault[0].check].name, proof.fault[0].text);
    arena_close(&x.mem);
  }
}

// The pipeline no longer waits for what the step before wrote; and the attention's own events.
static void planted_in_plans(void **state)
{
  struct served x;
  (void)state;
  serve_open_plan(&x, 1);
  int left = 0, streams = 0;
  for (int i = 0; i < x.p->nwaits; i++) {
    streams += x.p->wait[i].stream;
    if (!x.p->wait[i].stream) x.p->wait[left++] = x.p->wait[i];
  }
  assert_true(streams > 0);
  x.p->nwaits = left;
  struct mega_proof proof;
  struct err e = {0};
  assert_int_equal(mega_prove(x.p, &proof, &e), NO);
  assert_true(proof.fault[0].check == MEGA_CHECK_COUNTS || proof.fault[0].check == MEGA_CHECK_FENCE);
  arena_close(&x.mem);
  serve_open_plan(&x, 1);
  for (int i = 0; i < x.p->nwaits; i++)
    if (!x.p->wait[i].stream && !strcmp(mega_op_of(x.p, x.p->wait[i].node)->name, "attend")) x.p->wait[i].hi = x.p->wait[i].lo;
  found(&x, MEGA_CHECK_COUNTS);
  // A first part may have what the step before wrote, where a request has few positions.
  enum { PARTS = 4 };
  serve_open_plan(&x, PARTS);
  streams = 0;
  for (int i = 0; i < x.p->nwaits; i++)
    if (x.p->wait[i].stream && x.p->wait[i].lo % PARTS == 0) x.p->wait[i].lo++, streams++;
  assert_true(streams > 0);
  found(&x, MEGA_CHECK_FENCE);
}

// ---- sampling ----

static void noise_is_exact(void **state)
{
  (void)state;
  for (int i = 1; i < 64; i++) assert_true(noise_log2(1ull << i, 20) == (noise_word)i << 20);
  struct rng r = {5};
  for (int i = 0; i < 2000; i++) {
    noise_word x = rng_next(&r) >> rng_below(&r, 60) | 1;
    double is = (double)noise_log2(x, 40) * 0x1p-40;
    assert_true(fabs(is - log2((double)x)) < 1e-9);
  }
  // Fixed values: another machine, compiler or library changes none.
  static const struct {
    noise_word seed, position, token;
    float is;
  } known[] = {
#include "noise_known.h"
  };
  for (size_t i = 0; i < COUNT(known); i++) {
    float is = noise_gumbel(known[i].seed, known[i].position, known[i].token);
    if (is != known[i].is) fail_msg("%llu, %llu, %llu: %a", known[i].seed, known[i].position, known[i].token, (double)is);
  }
}

// Counts of what is chosen are those of the softmax.
static void noise_samples(void **state)
{
  enum { N = 6, DRAWS = 40000 };
  static const float logit[N] = {0, 1, -1, 2, 0.5f, -30};
  const float settings[NOISE_SETTINGS] = {[NOISE_INVERSE] = 1 / 0.7f, [NOISE_SEED + 3] = 9};
  double p[N], sum = 0;
  int count[N] = {0};
  (void)state;
  for (int i = 0; i < N; i++) sum += p[i] = exp((double)logit[i] / 0.7);
  for (int at = 0; at < DRAWS; at++) {
    int best = 0;
    for (int i = 1; i < N; i++)
      if (noise_key(logit[i], settings, (noise_word)at, (noise_word)i) > noise_key(logit[best], settings, (noise_word)at, (noise_word)best)) best = i;
    count[best]++;
  }
  for (int i = 0; i < N; i++) {
    double want = p[i] / sum * DRAWS;
    if (fabs(count[i] - want) > 5 * sqrt(want) + 1) fail_msg("token %d: %d of %g", i, count[i], want);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_seats_are_proved), cmocka_unit_test(orders_are_even), cmocka_unit_test(wrong_seats),
      cmocka_unit_test(planted_in_plans),     cmocka_unit_test(noise_is_exact),  cmocka_unit_test(noise_samples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
