// The order of blocks under a causal mask: each block once, and the longest first, so that multiprocessors end at about the same time.
// test: timeout 120
#include "given.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { PROCESSORS = 132, MOST_BLOCKS = 4096, MOST_SEEN = 3 };

static const char *const attention =
    "Q: f16[%d, %d, %d, 64]\n K: f16[%d, %d, %d, 64]\n V: f16[%d, %d, %d, 64]\n n = iota([%d])\n r = iota([%d, 1])\n"
    "O = block(x=%d, y=%d, z=%d; i=%d) {\n q = iter(Q, imap={x:0, y:1, z:2})\n k = iter(K, imap={x:0, y:1}, fmap={i:2})\n"
    " v = iter(V, imap={x:0, y:1}, fmap={i:2})\n j = iter(n, fmap={i:0})\n i = iter(r, imap={z:0})\n"
    " s = keep(matmul(q, transpose(k)) * 0.125, j <= i, scalar=-30000)\n most, moved = accum_max(max(s, dim=3))\n e = exp(s - most)\n f = "
    "exp(moved)\n"
    " save(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=3), omap={x:0, y:1, z:2})\n }\n return O";

static const struct {
  int batch, heads, rows;
  const char *scheme;
  int cache; // megabytes
} cases[] = {{2, 16, 1024, "wgmma", 50}, {2, 16, 1024, "wgmma", 1}, {1, 12, 2048, "wgmma", 3}, {3, 9, 640, "mma", 50}, {3, 9, 640, "mma", 1}};

// Runs a kernel whose blocks write two numbers each: the number of an item, and its iterations; 0 iterations: there is no such item.
static void run_text(struct arena *mem, const char *text, int blocks, int *item, double *iterations)
{
  struct err e = {0};
  struct tile_program *p;
  struct sim_report r;
  float *out = aligned_alloc(256, (sizeof *out * 2 * (size_t)blocks + 256) / 256 * 256);
  must(tile_parse_set(mem, "blocks", text, 0, NULL, &p, &e), text, &e);
  must(tile_lower(p, p->kernels[0], 90, &e), text, &e);
  struct sim_buffer b = {out, sizeof *out * 2 * (size_t)blocks, false};
  must(sim_run(mem, p, p->kernels[0], &(struct sim_input){.buffers = &b, .nbuffers = 1}, &r, &e), "blocks", &e);
  assert_int_equal(r.found, 0);
  for (int i = 0; i < blocks; i++) item[i] = (int)out[2 * i], iterations[i] = out[2 * i + 1];
  free(out);
}

static const char head[] = "order row\nkernel blocks {\n target sm_90a\n %%out:[%d].fp32.GL\n #grid:[%d].block\n #t:[32].thread\n"
                           " %%out <- Spec<<<#grid, #t>>>() {\n",
                  tail[] = "if (@tid == 0) {\n%%x:[2].fp32.RF\n%%x[0] <- Init<(%s)><<<#grid, #me>>>()\n%%x[1] <- Init<(%s)><<<#grid, #me>>>()\n"
                           "%%out.tile([2])[@all] <- Move<<<#grid, #me>>>(%%x)\n}\n";

static const char *line_after(const char *text) { return strchr(text, '\n') + 1; }

// The block's number and its iterations, by the text of a kernel, for each block in the order of their starts.
static int in_order(struct arena *mem, const char *text, int blocks, int *block, double *iterations)
{
  struct str own = {0};
  const char *from = strstr(text, "@first ="), *end = strstr(text, "@tid ="), *count = strstr(text, "@from ="), *done = strstr(count, "@count =");
  str_add(&own, head, 2 * blocks, blocks);
  str_add(&own, "%.*s\n@tid = #t.indices()\n#me = #t.scalar()\n@all = @first\n%.*s", (int)(end - from), from, (int)(line_after(done) - count), count);
  str_add(&own, tail, "@bid", "@count"), str_add(&own, "}\n}\n");
  run_text(mem, str_text(&own), blocks, block, iterations);
  str_free(&own);
  return blocks;
}

// The same for blocks that walk over items: those of the first round, then those of the second, and so on.
static int in_rounds(struct arena *mem, const char *text, int blocks, int *item, double *iterations)
{
  struct str own = {0};
  const char *which = strstr(text, "@place ="), *begin = strstr(which, "@before ="), *done = strstr(begin, "@count =");
  const int rounds = atoi(strstr(text, "round < ") + strlen("round < ")), all = rounds * blocks;
  str_add(&own, head, 2 * all, all);
  str_add(&own, "@all = #grid.indices()\n@tid = #t.indices()\n#me = #t.scalar()\n@round = @all / %d\n@first = @all %% %d\n%.*s", blocks, blocks,
          (int)(line_after(which) - which), which);
  str_add(&own, "@over = (@place >= %d)\n@item = max(@place, 0)\n", atoi(strstr(which, "if (@place < ") + strlen("if (@place < ")));
  str_add(&own, "if (@over == 1) {\n"), str_add(&own, tail, "0 - 1", "0"),
      str_add(&own, "}\nif (@over == 0) {\n%.*s", (int)(line_after(done) - line_after(begin)), line_after(begin));
  str_add(&own, tail, "@bid", "@count"), str_add(&own, "}\n}\n}\n");
  run_text(mem, str_text(&own), all, item, iterations);
  str_free(&own);
  return all;
}

// Iterations until the last block ends, if each starts on the multiprocessor that is free first.
static double until_end(const double *iterations, int blocks)
{
  double busy[PROCESSORS] = {0}, end = 0;
  for (int i = 0; i < blocks; i++) {
    int next = 0;
    for (int p = 1; p < PROCESSORS; p++)
      if (busy[p] < busy[next]) next = p;
    busy[next] += iterations[i], end = MAX(end, busy[next]);
  }
  return end;
}

// Returns the number of kernels whose blocks walk.
static int order(struct arena *mem, const struct target *gpu, const char *scheme, const char *text)
{
  struct err e = {0};
  struct graph *g;
  struct lower_plan p;
  struct device_program d;
  must(wrap_library(mem, read(mem, text), &g, &e), text, &e);
  must(lower_plan_of(mem, g, store_types(mem, g, NULL), gpu, &(struct lower_opts){.dependent = true}, &p, &e), text, &e);
  const struct lower_unit *unit = &p.unit[p.nunits - 1];
  struct choice *pick = NEWS(mem, struct choice, p.nunits + 1);
  for (int u = 0; u < p.nunits; u++) pick[u] = p.unit[u].choice[0];
  int seen[2] = {0}; // by whether blocks walk
  for (int c = 0; c < unit->nchoices; c++) {
    static int block[MOST_BLOCKS];
    static double iterations[MOST_BLOCKS], natural[MOST_BLOCKS];
    pick[p.nunits - 1] = unit->choice[c];
    must(lower_make(mem, &p, pick, &d, &e), text, &e);
    const struct launch *l = &d.launch[d.nlaunch - 1];
    if (strncmp(l->how, scheme, strlen(scheme)) || !strstr(l->text, "@other =")) continue;
    const bool walks = strstr(l->text, "for (round") != NULL;
    if (seen[walks] == MOST_SEEN) continue;
    const int blocks = atoi(strstr(l->text, "#grid:[") + strlen("#grid:["));
    const int n = (walks ? in_rounds : in_order)(mem, l->text, blocks, block, iterations);
    double sum = 0, longest = 0, end = walks ? 0 : until_end(iterations, n), busy[2 * PROCESSORS] = {0};
    for (int i = 0; i < n; i++) natural[i] = -1;
    for (int i = 0; i < n; i++) {
      if (walks && block[i] < 0) continue;
      assert_in_range(block[i], 0, n - 1);
      assert_true(natural[block[i]] < 0);
      natural[block[i]] = iterations[i], sum += iterations[i], longest = MAX(longest, iterations[i]);
      if (walks) busy[i % blocks] += iterations[i], end = MAX(end, busy[i % blocks]);
    }
    if (end > 1.1 * MAX(sum / (walks ? blocks : PROCESSORS), longest) + 1 || (!walks && end > until_end(natural, n)))
      fail_msg("%s: %g iterations, the mean is %g", l->how, end, sum / (walks ? blocks : PROCESSORS));
    seen[walks]++;
  }
  if (!seen[0]) fail_msg("%s: no kernel of %d has an order", scheme, unit->nchoices);
  return seen[1];
}

static void longest_first(void **state)
{
  (void)state;
  int walks = 0;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    struct target gpu = h200();
    const int b = cases[i].batch, h = cases[i].heads, t = cases[i].rows;
    gpu.l2 = (int64_t)cases[i].cache << 20;
    walks += order(&mem, &gpu, cases[i].scheme, arena_printf(&mem, attention, b, h, t, b, h, t, b, h, t, t, t, b, h, t / 64, t / 64));
    arena_close(&mem);
  }
  assert_true(walks > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(longest_first)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
