// Clusters of blocks that share the sum of a tile: where the model takes them, what their kernels consist of, and that CUDA's compiler takes these.
#include "cuda/cuda.h"
#include "given.h"
#include "sim/device_proof.h"

#include <math.h>

// The wgmma choice with the least modelled time: with this many blocks for a tile, or of all (-1); in pairs or not (-1: either).
static const struct choice *best_of(const struct lower_plan *p, int64_t split, int64_t pair)
{
  const struct choice *x = NULL;
  for (int i = 0; i < p->unit[0].nchoices; i++) {
    const struct choice *c = &p->unit[0].choice[i];
    if (c->scheme < 0 || strcmp(scheme_at(c->scheme)->name, "wgmma") != 0 || (split >= 0 && scheme_knob(c, "split") != split)) continue;
    if (pair >= 0 && scheme_knob(c, "pair") != pair) continue;
    if (!x || c->cost < x->cost) x = c;
  }
  return x;
}

static const struct choice *best(const struct lower_plan *p, int64_t split) { return best_of(p, split, -1); }

static struct lower_plan wide_product(struct arena *mem, int rows, int terms, int columns, int wide)
{
  static struct target gpu;
  struct err e = {0};
  struct lower_plan p;
  gpu = h200();
  const char *text = arena_printf(mem,
                                  "X: f16[%d, %d]\n W: f16[%d, %d]\n R: f16[%d, %d]\n O = block(x=%d, y=%d; i=%d) {\n"
                                  " x = iter(X, imap={x:0}, fmap={i:1})\n w = iter(W, imap={y:1}, fmap={i:0})\n r = iter(R, imap={x:0, y:1})\n"
                                  " save(relu(accum(matmul(x, w))) + r, omap={x:0, y:1})\n }\n return O",
                                  rows, terms, terms, columns, rows, columns, rows / 128, columns / wide, terms / 64);
  must(lower_plan(mem, read(mem, text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), "a product", &e);
  return p;
}

static struct lower_plan product(struct arena *mem, int rows, int terms, int columns) { return wide_product(mem, rows, terms, columns, 128); }

static void few_tiles_with_long_sums(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct lower_plan few = product(&mem, 1024, 11008, 1024), many = product(&mem, 4096, 4096, 4096), all = product(&mem, 1408, 1024, 1536);
  assert_int_equal(scheme_knob(best(&few, -1), "split"), 2); // 64 tiles
  assert_true(best(&few, 2)->cost < 0.85 * best(&few, 0)->cost);
  assert_int_equal(scheme_knob(best(&many, -1), "split"), 0); // 1,024 tiles
  assert_int_equal(scheme_knob(best(&all, -1), "split"), 0);  // 132 tiles
  arena_close(&mem);
}

// Blocks that walk over rectangles of tiles, of which the last is narrower.
static void the_last_rectangle_is_narrower(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct device_program d;
  struct choice c;
  const struct lower_plan p = product(&mem, 3072, 8192, 3072);
  assert_true(scheme_parse("wgmma groups=2 stages=4 store=2 blocks=132 rows=256", &c));
  must(lower_make(&mem, &p, &c, &d, &e), "a product", &e);
  assert_non_null(strstr(d.launch[0].text, "@wide = "));
  arena_close(&mem);
}

// 64 tiles make more clusters of four than the multiprocessors have room for. Pairs are tried with wider tiles.
static void pairs_of_wider_tiles(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct lower_plan p = wide_product(&mem, 256, 4096, 5120, 160), narrow = product(&mem, 256, 4096, 512);
  const struct choice *c = best_of(&p, 2, 1);
  assert_non_null(c);
  assert_int_equal(scheme_knob(c, "cols"), 192);
  assert_true(c->cost < best_of(&p, 2, 0)->cost);
  assert_int_equal(scheme_knob(best_of(&narrow, 2, 1), "cols"), 0); // 8 tiles
  assert_true(best_of(&narrow, 2, 1)->cost > best_of(&narrow, 2, 0)->cost);
  arena_close(&mem);
}

// Kernels of a fixed order have no atomic operation.
static void compiles(struct arena *mem, const struct device_program *d)
{
  struct err e = {0}, missing = {0};
  struct str source = {0};
  struct nvrtc *r;
  struct cubin cubin;
  const struct launch *l = &d->launch[0];
  assert_true(strstr(l->text, "cluster ") && !strstr(l->text, "red.") && !strstr(l->text, "atom."));
  must(cuda_print(l->p, l->k, d->gpu->arch, &source, &e), l->how, &e);
  if (nvrtc_open(&r, &missing) == OK) {
    must(nvrtc_compile(r, mem, l->name, str_text(&source), d->gpu->arch, &cubin, &e), l->how, &e);
    nvrtc_close(r);
  }
  str_free(&source);
}

static void compiled_and_proven(void **state)
{
  (void)state;
  for (int i = 0; i < 4; i++) {
    const int split = i % 2 ? 4 : 2, pair = i / 2;
    struct arena mem = {0};
    struct err e = {0};
    struct device_program d;
    struct device_proof proof;
    const char *why = "";
    const struct lower_plan p = product(&mem, 256, 4096, 512);
    const struct choice *c = best_of(&p, split, pair);
    assert_non_null(c);
    must(lower_make(&mem, &p, c, &d, &e), "a product", &e);
    compiles(&mem, &d);
    if (device_prove(&mem, &p, c, -1, 1, 2, NULL, &proof, &why, &e) != OK) fail_msg("%s%s", why, e.text);
    assert_int_equal(proof.run, 1);
    assert_string_equal(proof.note, ""); // with these knobs
    arena_close(&mem);
  }
}

// With a budget for persistent blocks there are no clusters.
static void no_clusters(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct lower_plan p = product(&mem, 256, 4096, 512);
  const struct target budget = gpu_budget(p.gpu, 132, 0);
  struct choice c = *best_of(&p, 2, 0);
  struct lower_out out = {0};
  p.gpu = &budget;
  struct lower_job j = lower_unit_job(&mem, &p, &p.unit[0], false);
  assert_int_not_equal(scheme_emit(scheme_at(c.scheme), &j, &c.k, &out, &e), OK);
  assert_non_null(strstr(e.text, "no clusters of 2 blocks"));
  str_free(&out.text);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_tiles_with_long_sums), cmocka_unit_test(the_last_rectangle_is_narrower),
                                     cmocka_unit_test(pairs_of_wider_tiles), cmocka_unit_test(compiled_and_proven), cmocka_unit_test(no_clusters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
