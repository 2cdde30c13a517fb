// Kernels with the kernel that finishes them in one launch: by clusters, and by the last block to come. Each pair is lowered in
// all ways, run in the interpreter, and held against float64; one launch does it, and counters are left at zero.
#include "../graphs.h"
#include "sim/device_host.h"
#include "cuda/cuda.h"
#include "lower/lower.h"
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct gpu_limits h200 = {90, 132, 232448, 233472, 65536, 50 << 20, 4.28e12, 1e13, 8e14, 0.7e-6};
static const struct gpu_limits a100 = {80, 108, 166912, 167936, 65536, 40 << 20, 1.9e12, 5e12, 3e14, 0.7e-6};

enum { CLUSTERS = 1, LAST = 2 };

static const struct {
  const char *name, *scheme, *text;
  int ways; // that there must be
} graphs[] = {
    {"attention, 2 splits", "mma",
     "Q: f16[2, 16, 32]\n K: f16[2, 64, 32]\n V: f16[2, 64, 32]\n"
     "A, B = block(x=2, y=2; i=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0, y:1}, fmap={i:1})\n v = iter(V, imap={x:0, y:1}, fmap={i:1})\n"
     "e = exp(matmul(q, transpose(k, perm=[0, 2, 1])))\n save(accum(matmul(e, v)), omap={x:0, y:1})\n save(accum_sum(e, dim=2), omap={x:0, y:1}) }\n"
     "O = block(x=2) { a = iter(A, imap={x:0})\n b = iter(B, imap={x:0})\n"
     "save(sum(reshape(a, [1, 2, 16, 32]), dim=1) / sum(reshape(b, [1, 2, 16, 1]), dim=1), omap={x:0}) }\n return O",
     CLUSTERS | LAST},
    {"16 splits, the tail in blocks of its own", "mma",
     "Q: f16[2, 16, 16]\n K: f16[2, 256, 16]\n V: f16[2, 256, 32]\n"
     "A, B = block(x=16, y=2) { q = iter(Q, imap={y:0})\n k = iter(K, imap={y:0, x:1})\n v = iter(V, imap={y:0, x:1})\n"
     "e = exp(matmul(q, transpose(k, perm=[0, 2, 1])))\n save(reshape(matmul(e, v), [1, 1, 16, 32]), omap={x:0, y:1})\n"
     "save(reshape(sum(e, dim=2), [1, 1, 16, 1]), omap={x:0, y:1}) }\n"
     "O = block(x=2, y=4, z=2) { a = iter(A, imap={x:1, y:2, z:3})\n b = iter(B, imap={x:1, y:2})\n save(sum(a, dim=0) / sum(b, dim=0), omap={x:0, "
     "y:1, z:2}) }\n"
     "return O",
     CLUSTERS | LAST},
    {"rows of a group that are no 16, splits that are no power of two", "mma",
     "Q: f16[1, 2, 7, 16]\n K: f16[1, 2, 96, 16]\n V: f16[1, 2, 96, 24]\n"
     "A, B = block(x=2, y=3; i=2) { q = iter(Q, imap={x:1})\n k = iter(K, imap={x:1, y:2}, fmap={i:2})\n v = iter(V, imap={x:1, y:2}, fmap={i:2})\n"
     "e = exp(matmul(q, transpose(k, perm=[0, 1, 3, 2])) * 0.25)\n"
     "save(reshape(accum(matmul(e, v)), [1, 1, 1, 7, 24]), omap={x:2, y:0})\n save(reshape(accum_sum(e, dim=3), [1, 1, 1, 7, 1]), omap={x:2, y:0}) "
     "}\n"
     "O = block(x=7) { a = iter(A, imap={x:3})\n b = iter(B, imap={x:3})\n save(sum(a, dim=0) / sum(b, dim=0), omap={x:2}) }\n return O",
     CLUSTERS | LAST},
    {"rows cut by the head, together in the tail", "mma",
     "Q: f16[32, 16]\n K: f16[128, 16]\n V: f16[128, 16]\n"
     "A, B = block(x=2, y=4) { q = iter(Q, imap={x:0})\n k = iter(K, imap={y:0})\n v = iter(V, imap={y:0})\n"
     "e = exp(matmul(q, transpose(k, perm=[1, 0])))\n save(reshape(matmul(e, v), [1, 16, 16]), omap={x:1, y:0})\n save(reshape(sum(e, dim=1), [1, "
     "16, 1]), omap={x:1, y:0}) }\n"
     "O = block() { a = iter(A)\n b = iter(B)\n save(sum(a, dim=0) / sum(b, dim=0)) }\n return O",
     CLUSTERS | LAST},
    {"sums over k, columns cut by the head in 2 and by the tail in 4", "mma",
     "X: f16[16, 256]\n W: f16[256, 64]\n R: f16[16, 64]\n"
     "P = block(x=2, y=8; i=2) { x = iter(X, imap={y:1}, fmap={i:1})\n w = iter(W, imap={x:1, y:0}, fmap={i:0})\n"
     "save(reshape(accum(matmul(x, w)), [1, 16, 32]), omap={x:2, y:0}) }\n"
     "O = block(x=4, y=2) { p = iter(P, imap={x:2, y:1})\n r = iter(R, imap={x:1, y:0})\n save(relu(sum(p, dim=0)) + r, omap={x:1, y:0}) }\n return "
     "O",
     CLUSTERS | LAST},
    {"two grid axes of parts", "mma",
     "X: f16[16, 128]\n W: f16[128, 16]\n U = reshape(X, [16, 2, 2, 32])\n V = reshape(W, [2, 2, 32, 16])\n"
     "P = block(x=2, y=2, z=2) { x = iter(U, imap={x:1, z:2})\n w = iter(V, imap={x:0, z:1, y:3})\n"
     "save(reshape(matmul(reshape(x, [16, 32]), reshape(w, [32, 8])), [1, 1, 16, 8]), omap={x:0, z:1, y:3}) }\n"
     "O = block(x=2) { p = iter(P, imap={x:2})\n save(sum(reshape(p, [4, 8, 16]), dim=0), omap={x:0}) }\n return O",
     CLUSTERS | LAST},
    {"attention by warpgroups", "wgmma",
     "Q: f16[2, 128, 32]\n K: f16[2, 32, 128]\n V: f16[2, 128, 32]\n"
     "A, B = block(x=2, y=2; i=2) { q = iter(Q, imap={x:0})\n k = iter(K, imap={x:0, y:2}, fmap={i:2})\n v = iter(V, imap={x:0, y:1}, fmap={i:1})\n"
     "e = exp(matmul(q, k))\n save(accum(matmul(e, v)), omap={x:0, y:1})\n save(accum_sum(e, dim=2), omap={x:0, y:1}) }\n"
     "O = block(x=2, y=2) { a = iter(A, imap={x:0, y:2})\n b = iter(B, imap={x:0})\n"
     "save(reshape(sum(reshape(a, [1, 2, 128, 16]), dim=1) / sum(reshape(b, [1, 2, 128, 1]), dim=1), [1, 128, 16]), omap={x:0, y:2}) }\n return O",
     CLUSTERS | LAST},
    {"sums over k by warpgroups, and what the head reads too", "wgmma",
     "X: f16[64, 192]\n W: f16[192, 64]\n"
     "P = block(x=2, y=3; i=2) { x = iter(X, imap={y:1}, fmap={i:1})\n w = iter(W, imap={x:1, y:0}, fmap={i:0})\n"
     "save(reshape(accum(matmul(x, w)), [1, 64, 32]), omap={x:2, y:0}) }\n"
     "O = block(x=2) { p = iter(P, imap={x:2})\n r = iter(X, imap={x:1})\n save(sum(p, dim=0) + sum(reshape(r, [64, 3, 32]), dim=1), omap={x:1}) }\n "
     "return O",
     CLUSTERS | LAST},
    {"17 parts are no cluster", "mma",
     "X: f16[16, 272]\n W: f16[272, 16]\n P = block(x=17) { x = iter(X, imap={x:1})\n w = iter(W, imap={x:0})\n save(reshape(matmul(x, w), [1, 16, "
     "16]), omap={x:0}) }\n"
     "O = block(x=2) { p = iter(P, imap={x:1})\n save(sum(p, dim=0), omap={x:0}) }\n return O",
     LAST},
};

static struct graph *stable_of(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g = graph_of(mem, arena_printf(mem, "graph g {\n %s\n}\n", text)), *out;
  char note[256];
  bool changed;
  if (plan_stable(mem, g, &out, &changed, note, &e)) fail_msg("%s", e.text);
  return out;
}

static void run(struct arena *mem, const char *name, const struct device_program *d)
{
  struct err e = {0};
  struct device_host h = {0};
  struct device_answer a[8];
  struct sim_report r;
  if (device_host_open(&h, mem, d, &(struct device_host_opts){.seed = 5}, &e)) fail_msg("%s: %s", name, e.text);
  for (int round = 0; round < 2; round++) { // the second finds the counters as the first left them
    if (device_host_launch(&h, 0, &r, NULL, &e)) fail_msg("%s: %s", name, e.text);
    if (r.found) fail_msg("%s %s: %s", name, d->launch[0].how, r.errors[0].text);
    int n = device_host_compare(&h, 0, (int)COUNT(a), a), outputs = 0;
    for (int i = 0; i < n; i++) {
      if (!a[i].fine) fail_msg("%s %s: relative difference %g", name, d->launch[0].how, a[i].relative);
      outputs += a[i].output >= 0;
    }
    assert_int_equal(outputs, graph_outputs(d->g, NULL));
    assert_true(device_host_counters_zero(&h));
  }
  device_host_close(&h);
}

// Which knob says how, of the scheme.
static int way_of(const struct choice *c)
{
  const struct scheme *s = scheme_at(c->scheme);
  for (int k = 0; k < KNOBS && s->knob[k]; k++)
    if (!strcmp(s->knob[k], "last")) return c->k.v[k] ? LAST : CLUSTERS;
  return 0;
}

static void compiles(struct arena *mem, const struct device_program *d)
{
  struct err e = {0};
  struct str source = {0};
  struct nvrtc *r;
  struct cubin cubin;
  if (cuda_print(d->launch[0].p, d->launch[0].k, d->gpu->arch, &source, &e)) fail_msg("%s: %s", d->launch[0].how, e.text);
  struct err missing = {0};
  if (nvrtc_open(&r, &missing) == OK) {
    if (nvrtc_compile(r, mem, d->launch[0].name, str_text(&source), d->gpu->arch, &cubin, &e)) fail_msg("%s: %s", d->launch[0].how, e.text);
    nvrtc_close(r);
  }
  str_free(&source);
}

static void hold(int i, const struct gpu_limits *gpu)
{
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  int ways = 0, all = gpu == &h200 ? graphs[i].ways : strcmp(graphs[i].scheme, "mma") ? 0 : LAST, seen[3] = {0};
  if (lower_plan(&mem, stable_of(&mem, graphs[i].text), gpu, &(struct lower_opts){.tails = true, .dependent = true}, &p, &e))
    fail_msg("%s: %s", graphs[i].name, e.text);
  assert_int_equal(p.nunits, 2);
  for (int c = 0; c < p.unit[0].nchoices; c++) {
    struct choice pick[2] = {p.unit[0].choice[c], p.unit[1].choice[0]};
    struct device_program d;
    if (!pick[0].tail || strcmp(scheme_at(pick[0].scheme)->name, graphs[i].scheme) != 0) continue;
    assert_true(lower_inside(&p, pick, 1) && !lower_inside(&p, pick, 0));
    if (lower_make(&mem, &p, pick, &d, &e)) fail_msg("%s: %s", graphs[i].name, e.text);
    assert_int_equal(d.nlaunch, 1);
    ways |= way_of(&pick[0]);
    if (seen[way_of(&pick[0])]++ % 3) continue; // every third of a kind
    run(&mem, graphs[i].name, &d);
    if (seen[way_of(&pick[0])] == 1) compiles(&mem, &d);
  }
  if (ways != all) fail_msg("%s: ways %d, not %d: %s", graphs[i].name, ways, all, p.unit[0].why);
  arena_close(&mem);
}

static void tails(void **state)
{
  (void)state;
  for (int i = 0; i < (int)COUNT(graphs); i++) hold(i, &h200), hold(i, &a100);
}

// What the tail reads must be all that its group of blocks left, and what it writes its own.
static const char *const refused[] = {
    // parts that nothing sums
    "X: f16[16, 64]\n W: f16[64, 32]\n P = block(x=2) { x = iter(X)\n w = iter(W, imap={x:1})\n save(matmul(x, w), omap={x:1}) }\n"
    "O = block(x=2) { p = iter(P, imap={x:1})\n save(exp(p * 0.01), omap={x:1}) }\n return O",
    // a row is summed over columns of several blocks, by which no block alone is told apart from others
    "X: f16[16, 64]\n W: f16[64, 32]\n P = block(x=2, y=2) { x = iter(X, imap={y:1})\n w = iter(W, imap={x:1, y:0})\n save(reshape(matmul(x, w), [1, "
    "16, 16]), omap={x:2, y:0}) }\n"
    "O = block() { p = iter(P)\n s = sum(p, dim=0)\n save(s / sum(s, dim=2)) }\n return O",
};

static void apart(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p;
  if (lower_plan(&mem, stable_of(&mem, refused[0]), &h200, &(struct lower_opts){.tails = true}, &p, &e)) fail_msg("%s", e.text);
  for (int c = 0; c < p.unit[0].nchoices; c++) assert_true(!p.unit[0].choice[c].tail || !way_of(&p.unit[0].choice[c]));
  // Columns that are summed are parts too: a cluster of all four blocks.
  if (lower_plan(&mem, stable_of(&mem, refused[1]), &h200, &(struct lower_opts){.tails = true}, &p, &e)) fail_msg("%s", e.text);
  for (int c = 0; c < p.unit[0].nchoices; c++) {
    struct choice pick[2] = {p.unit[0].choice[c]};
    struct device_program d;
    if (!pick[0].tail || way_of(&pick[0]) != CLUSTERS) continue;
    if (lower_make(&mem, &p, pick, &d, &e)) fail_msg("%s", e.text);
    assert_int_equal(d.launch[0].k->cluster, 4);
    run(&mem, "columns", &d);
    arena_close(&mem);
    return;
  }
  fail_msg("no cluster for sums over columns: %s", p.unit[0].why);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(tails), cmocka_unit_test(apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
