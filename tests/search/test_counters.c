// bench/search.csv: what each search tries, prunes and finds. The counters depend on no machine, no number of threads
// and no run, so they are compared exactly; a change of the search shows here as a change of the file.
//
//   MICA_WRITE_COUNTERS=1 build/tests/search_test_counters   measures all rows anew and writes the file
//
// Searches of more than MOST operators are compared only then.
// test: release
// test: timeout 300
#include "examples.h"

enum { MOST = 1500000 };
static const char *const file = MICA_SOURCE_DIR "/bench/search.csv";
static const char *const head =
    "program,max_kernel_ops,max_block_ops,tried,values,schedules,structures,verified,expr,shape,phase,canon,finger,memory,size,whole,square,"
    "complete,kernels,block_ops,schedule\n";

static const struct {
  const char *name;
  int kernels, block_ops; // limits; 0: defaults
} rows[] = {
    {"m_rms", 0, 7},    {"m_gated", 0, 6},    {"m_lora", 0, 8},         {"m_gqa", 2, 8},       {"m_gqa", 3, 11},        {"m_gqa", 0, 0},
    {"m_mha", 0, 0},    {"m_mqa", 0, 0},      {"m_qknorm", 0, 16},      {"qknorm_qk", 0, 0},   {"chameleon", 0, 0},     {"mha_dec", 0, 0},
    {"mha_spec", 0, 0}, {"mha_pre", 0, 0},    {"gqa_dec", 0, 0},        {"gqa_spec", 0, 0},    {"gqa_pre", 0, 0},       {"mqa_dec", 0, 0},
    {"mqa_spec", 0, 0}, {"mqa_pre", 0, 0},    {"g_fmha", 0, 0},         {"g_fmha_mask", 0, 0}, {"mlp", 0, 0},           {"lora", 0, 0},
    {"m_lora", 0, 0},   {"llama_lora", 0, 0}, {"llama_rms_lora", 0, 0}, {"m_rms", 0, 0},       {"chameleon_rms", 0, 0}, {"llama_rms", 0, 0},
    {"ngpt", 0, 0},     {"ngpt_alpha", 0, 0}, {"m_gated", 0, 0},        {"m_ntrans", 0, 0},    {"g_norm", 0, 0},        {"softmax", 0, 0},
    {"g_gemm", 0, 0},   {"g_mlp20", 0, 0},    {"g_lstm", 0, 0},         {"m_moe", 0, 0},       {"moe", 0, 0},
};

static char *search_row(struct arena *mem, size_t i, struct search_result *r)
{
  struct search_opts o = {.max_kernel_ops = rows[i].kernels, .max_block_ops = rows[i].block_ops, .threads = 2, .seed = 7};
  struct err e = {0};
  struct str s = {0};
  assert_int_equal(search_run(mem, load(mem, rows[i].name, 0, NULL), &machine, &o, r, &e), OK);
  const struct search_stats *c = &r->stats;
  str_add(&s, "%s,%d,%d,%llu,%llu,%llu,%llu,%llu", rows[i].name, rows[i].kernels, rows[i].block_ops, (unsigned long long)c->states,
          (unsigned long long)c->values, (unsigned long long)c->schedules, (unsigned long long)c->graphs, (unsigned long long)c->verified);
  for (int k = 0; k < PRUNES; k++) str_add(&s, ",%llu", (unsigned long long)c->pruned[k]);
  str_add(&s, ",%d,%d,%d,\"%s\"\n", r->complete, r->n ? r->found[0].kernels : 0, r->n ? r->found[0].block_ops : 0, r->n ? r->found[0].schedule : "");
  char *text = arena_strdup(mem, str_text(&s));
  str_free(&s);
  return text;
}

static void write_all(void)
{
  struct str all = {0};
  struct err e = {0};
  str_add(&all, "%s", head);
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct search_result r;
    const char *text = search_row(&mem, i, &r);
    str_add(&all, "%s", text);
    print_message("%6.2f s  %s", r.stats.seconds, text);
    arena_close(&mem);
  }
  assert_int_equal(file_write(file, str_text(&all), all.n, &e), OK);
  str_free(&all);
}

static void test_counters(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  char *text, *line, *save = NULL;
  size_t n, compared = 0;
  if (getenv("MICA_WRITE_COUNTERS")) write_all();
  assert_int_equal(file_read(&mem, file, &text, &n, &e), OK);
  assert_true(!strncmp(text, head, strlen(head)));
  line = strtok_r(text + strlen(head), "\n", &save);
  for (size_t i = 0; i < COUNT(rows); i++, line = strtok_r(NULL, "\n", &save)) {
    struct arena one = {0};
    struct search_result r;
    char name[64];
    unsigned long long tried;
    assert_non_null(line);
    assert_int_equal(sscanf(line, "%63[^,],%*d,%*d,%llu", name, &tried), 2);
    assert_string_equal(name, rows[i].name);
    if (tried <= MOST) {
      char *now = search_row(&one, i, &r);
      now[strlen(now) - 1] = 0;
      assert_string_equal(now, line);
      compared++;
    }
    arena_close(&one);
  }
  assert_true(compared > COUNT(rows) / 2);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
