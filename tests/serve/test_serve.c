// Requests that join and leave, prompts in chunks, unequal positions, pages in any order: tokens and logits are those of each request alone. The
// CUDA text on a machine of fibers gives the same; a launch that hangs leaves a record, and the next one is right.
// test: timeout 300
#include "base/num.h"
#include "folder.h"
#include "shims.h"
#include "thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 5, PAGES = 12, VOCAB = 151, SMALL = 101, LONG = 80 }; // VOCAB: the larger vocabulary of the models, SMALL: that of Llama

static struct serve *opened_with(const char *file, struct mega_sizes sizes, bool text)
{
  struct serve *s;
  struct err e = {0};
  struct arena mem = {0};
  struct serve_given g = {.name = file, .sizes = sizes, .deadline = 60};
  char *model, path[300];
  snprintf(path, sizeof path, MICA_SOURCE_DIR "/examples/mega/%s", file);
  assert_int_equal(file_read(&mem, path, &model, &g.n, &e), OK);
  g.text = model;
  if (serve_open(&g, &s, &e) != OK) fail_msg("%s", e.text);
  if (text) {
    struct serve_machine m;
    if (shims_open(s, folder, &m, &e) != OK || serve_on(s, &m, &e) != OK) fail_msg("%s", e.text);
  }
  assert_int_equal(serve_random(s, 7, &e), OK);
  arena_close(&mem);
  return s;
}

static struct serve *opened(const char *file, int rows, bool text)
{
  return opened_with(file, (struct mega_sizes){.rows = rows, .workers = 3, .pages = PAGES, .context = -1}, text);
}

static void stepped(struct serve *s, const struct serve_row *rows, int steps, int32_t *tokens, float *logits)
{
  struct err e = {0};
  if (serve_step(s, rows, steps, tokens, logits, &e) != OK) fail_msg("%s", e.text);
}

// ---- requests ----

struct request {
  int prompt[LONG], nprompt, want; // tokens of the prompt; how many are to be made
  int made[LONG], nmade;
  float logits[LONG][VOCAB]; // from which they were chosen
  int32_t pages[2];
  float temperature;
  int top;
};

static void make_requests(struct request *q, int n, int longest)
{
  for (int i = 0; i < n; i++) {
    memset(&q[i], 0, sizeof q[i]);
    q[i].nprompt = 1 + longest / 9 * i, q[i].want = (longest < 9 ? 2 : 6) + i, q[i].temperature = i % 2 ? 0.8f : 0, q[i].top = i == 3 ? 5 : 0;
    for (int k = 0; k < q[i].nprompt; k++) q[i].prompt[k] = (i * 31 + k * 17 + 3) % SMALL;
    q[i].pages[0] = 2 * i + 2, q[i].pages[1] = 2 * i + 1;
  }
  q[n - 1].nprompt = longest;
  for (int k = 0; k < longest; k++) q[n - 1].prompt[k] = (k * 29 + 5) % SMALL;
}

static int position_of(const struct request *q, int at) { return at < q->nprompt ? q->prompt[at] : q->made[at - q->nprompt]; }

static struct serve_row row_of(const struct request *q, int id, int at)
{
  return (struct serve_row){id, position_of(q, at), at, 2, q->pages, q->temperature, q->top, 99 + (uint64_t)id};
}

// One request alone, a token a step.
static void alone(struct serve *s, struct request *q, int id)
{
  float logits[ROWS * VOCAB];
  int32_t tokens[ROWS];
  struct serve_row rows[ROWS];
  for (int at = 0; q->nmade < q->want; at++) {
    for (int r = 0; r < s->m->rows; r++) rows[r] = (struct serve_row){.request = -1};
    rows[0] = row_of(q, id, at);
    stepped(s, rows, 1, tokens, logits);
    if (at + 1 < q->nprompt) continue;
    memcpy(q->logits[q->nmade], logits, sizeof(float) * (size_t)s->config->vocab);
    q->made[q->nmade++] = tokens[0];
  }
}

// All of them: request i joins in step i; each takes as many rows as are free for its prompt, and leaves when it is done.
static void together(struct serve *s, struct request *q, int n)
{
  int done[8] = {0}, left = n;
  float logits[ROWS * VOCAB];
  int32_t tokens[ROWS];
  for (int step = 0; left; step++) {
    struct serve_row rows[ROWS];
    int used = 0, last[8];
    for (int i = 0; i < ROWS; i++) rows[i] = (struct serve_row){.request = -1};
    for (int i = 0; i < n; i++) {
      int id = (i + step) % n; // rows are other ones in each step
      struct request *x = &q[id];
      last[id] = -1;
      if (step < id || x->nmade == x->want) continue;
      int chunk = x->nmade ? 1 : MIN(MIN(3, ROWS - used), x->nprompt - done[id]);
      for (int k = 0; k < chunk && used < ROWS; k++) rows[used] = row_of(x, id, done[id]++), last[id] = used++;
    }
    stepped(s, rows, 1, tokens, logits);
    for (int id = 0; id < n; id++) {
      if (last[id] < 0 || done[id] < q[id].nprompt) continue;
      memcpy(q[id].logits[q[id].nmade], logits + last[id] * s->config->vocab, sizeof(float) * (size_t)s->config->vocab);
      q[id].made[q[id].nmade++] = tokens[last[id]];
      left -= q[id].nmade == q[id].want;
    }
    assert_true(step < 500);
  }
}

static void same(const struct request *a, const struct request *b, int n, float most)
{
  for (int i = 0; i < n; i++) {
    assert_int_equal(a[i].nmade, b[i].nmade);
    for (int k = 0; k < a[i].nmade; k++) {
      if (a[i].made[k] != b[i].made[k]) fail_msg("request %d, token %d: %d and %d", i, k, a[i].made[k], b[i].made[k]);
      for (int v = 0; v < VOCAB; v++)
        if (!(fabsf(a[i].logits[k][v] - b[i].logits[k][v]) <= most)) fail_msg("request %d, token %d, logit %d", i, k, v);
    }
  }
}

static void model_serves(const char *file, bool text)
{
  enum { N = 5 };
  static struct request one[N], all[N];
  int n = text ? 3 : N, longest = text ? 5 : 62; // of 62 the answer goes on in the second page
  struct serve *a = opened(file, 1, false), *b = opened(file, ROWS, text);
  make_requests(one, n, longest), make_requests(all, n, longest);
  for (int i = 0; i < n; i++) alone(a, &one[i], i);
  together(b, all, n);
  same(one, all, n, 2e-4f);
  int sampled = 0;
  for (int k = 0; k < one[1].nmade; k++)
    for (int v = 0; v < VOCAB; v++) sampled |= one[1].logits[k][v] > one[1].logits[k][one[1].made[k]];
  assert_true(sampled); // a temperature does not only take the largest
  serve_close(a), serve_close(b);
}

static void llama_serves(void **state) { (void)state, model_serves("tiny_llama.json", false); }
static void qwen3_serves(void **state)
{
  (void)state;
  if (thinned(2) > 1) skip();
  model_serves("tiny_qwen3.json", false);
}

static void text_serves(void **state)
{
  (void)state;
  if (!shims_there() || thinned(2) > 1) skip();
  model_serves("tiny_qwen3.json", true);
}

// Steps of one launch are those of as many launches, over the border of a page. The cache is full of numbers before.
static void launch_of_steps(bool text)
{
  enum { AT = 62, STEPS = 4 };
  struct serve *s = opened("tiny_llama.json", 3, text);
  struct err e = {0};
  int64_t n = mega_elements(&s->m->tensor[mega_tensor_find(s->m, "cache")]);
  float a[3 * VOCAB], b[3 * VOCAB], *cache = malloc(sizeof *cache * (size_t)n);
  int32_t pages[3][2] = {{4, 1}, {2, 3}, {5, 6}}, one[STEPS][3], many[STEPS * 3];
  struct serve_row rows[3];
  for (int64_t i = 0; i < n; i++) cache[i] = (float)sin((double)i);
  assert_int_equal(serve_value(s, "cache", cache, F32, n, &e), OK);
  for (int r = 0; r < 3; r++) rows[r] = (struct serve_row){r, 5 + r, AT, 2, pages[r], r ? 0.7f : 0, r == 2 ? 3 : 0, 12};
  rows[1].request = -1;
  for (int at = 0; at < STEPS; at++) {
    stepped(s, rows, 1, one[at], a);
    for (int r = 0; r < 3; r++) rows[r].token = one[at][r], rows[r].position++;
  }
  for (int r = 0; r < 3; r++) rows[r].token = 5 + r, rows[r].position = AT;
  stepped(s, rows, STEPS, many, b);
  for (int at = 0; at < STEPS; at++)
    for (int r = 0; r < 3; r += 2) assert_int_equal(one[at][r], many[at * 3 + r]);
  assert_memory_equal(a, b, sizeof(float) * SMALL);
  serve_close(s);
  free(cache);
}
static void steps_of_a_launch(void **state)
{
  (void)state;
  launch_of_steps(false);
  if (getenv("MICA_ALL") && shims_there()) launch_of_steps(true);
}

// ---- what is refused ----

static void refused(void **state)
{
  static const int32_t one[] = {1}, two[] = {2, 3}, zero[] = {0}, twice[] = {2, 1}, twelve[] = {12};
  static const struct {
    struct serve_row row[3];
    int steps;
    const char *says;
  } bad[] = {
      {{{0, 101, 0, 1, one}, {-1}, {-1}}, 1, "token 101"},
      {{{0, -1, 0, 1, one}, {-1}, {-1}}, 1, "token -1"},
      {{{0, 5, -1, 1, one}, {-1}, {-1}}, 1, "positions must be at least 0"},
      {{{0, 5, 64, 1, one}, {-1}, {-1}}, 1, "only hold positions below 64"},
      {{{0, 5, 60, 1, one}, {-1}, {-1}}, 5, "only hold positions below 64"},
      {{{0, 5, 0, 1, zero}, {-1}, {-1}}, 1, "does not exist or is reserved: 0"},
      {{{0, 5, 0, 1, twelve}, {-1}, {-1}}, 1, "does not exist or is reserved: 12"},
      {{{0, 5, 0, 1, one}, {1, 5, 3, 1, one}, {-1}}, 1, "another row has the page that this row writes: 1"},
      {{{0, 5, 3, 2, two}, {1, 5, 70, 2, twice}, {-1}}, 1, "another row has the page that this row writes: 2"},
      {{{0, 5, 3, 1, one}, {0, 5, 5, 1, one}, {-1}}, 1, "must have the previous position"},
      {{{0, 5, 3, 1, one}, {0, 5, 4, 1, one}, {-1}}, 2, "must run one step"},
      {{{0, 5, 3, 1, one}, {-1}, {0, 5, 4, 1, one}}, 1, "not its neighbours"},
      {{{0, 5, 3, 0, NULL}, {-1}, {-1}}, 1, "only hold positions below 0"},
      {{{0, 5, 3, 1, NULL}, {-1}, {-1}}, 1, "row 0 has no page table"},
      {{{0, 5, 3, 1, one, -1}, {-1}, {-1}}, 1, "temperature"},
      {{{0, 5, 3, 1, one, NAN}, {-1}, {-1}}, 1, "temperature"},
      {{{0, 5, 3, 1, one, 1, 65}, {-1}, {-1}}, 1, "asked for are 65"},
      {{{-1}, {-1}, {-1}}, 0, "1 to 64 steps"},
      {{{-1}, {-1}, {-1}}, 65, "1 to 64 steps"},
  };
  struct serve *s = opened("tiny_llama.json", 3, false);
  int32_t tokens[65 * 3];
  (void)state;
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct err e = {0};
    assert_int_equal(serve_step(s, bad[i].row, bad[i].steps, tokens, NULL, &e), USER);
    if (!strstr(e.text, bad[i].says)) fail_msg("`%s` has no `%s`", e.text, bad[i].says);
  }
  serve_close(s);
}

static void weights_by_name(void **state)
{
  struct err e = {0};
  struct serve *s;
  struct serve_given g = {.name = "x", .sizes = {.rows = 1, .workers = 2, .context = -1}};
  (void)state;
  g.text =
      "mega x(rows = 1, context = 0) {\n  t: i32[rows] state\n  e: f32[4, 8] weights\n  y: f32[rows, 8] output\n  operator o {\n    layer embed\n"
      "    reads t, e\n    writes y\n    tiles 1\n  }\n}\n";
  g.n = strlen(g.text);
  assert_int_equal(serve_open(&g, &s, &e), OK);
  float w[32], y[8];
  int32_t tokens[1];
  struct serve_row row = {.token = 2};
  for (int i = 0; i < 32; i++) w[i] = (float)i;
  assert_int_equal(serve_step(s, &row, 1, tokens, y, &e), USER);
  assert_non_null(strstr(e.text, "has no weights yet: e"));
  e = (struct err){0};
  assert_int_equal(serve_value(s, "ee", w, F32, 32, &e), USER);
  e = (struct err){0};
  assert_int_equal(serve_value(s, "e", w, F32, 31, &e), USER);
  assert_non_null(strstr(e.text, "32 elements, and 31 are given"));
  e = (struct err){0};
  assert_int_equal(serve_value(s, "e", w, F32, 32, &e), OK);
  assert_int_equal(serve_step(s, &row, 1, tokens, y, &e), OK);
  for (int i = 0; i < 8; i++) assert_true(y[i] == w[16 + i]);
  assert_int_equal(serve_value(s, "e", w, F32, 32, &e), USER);
  serve_close(s);
}

// ---- the watchdog ----

static void hung(bool text)
{
  struct serve *s = opened("tiny_llama.json", 1, text);
  struct err e = {0};
  static const int32_t pages[] = {1};
  struct serve_row row = {0, 5, 0, 1, pages, 0, 0, 0};
  int32_t before[4], after[4];
  stepped(s, &row, 4, before, NULL);
  s->deadline = 0.2;
  assert_int_equal(serve_plant(s, true, &e), OK);
  assert_int_equal(serve_step(s, &row, 4, after, NULL, &e), NO);
  assert_true(s->hung && strstr(s->record, "waited for") && strstr(e.text, s->record));
  e = (struct err){0};
  assert_int_equal(serve_plant(s, false, &e), OK);
  stepped(s, &row, 4, after, NULL);
  assert_memory_equal(before, after, sizeof before);
  serve_close(s);
}
static void hung_and_on(void **state)
{
  (void)state;
  hung(false);
  if (getenv("MICA_ALL") && shims_there()) hung(true);
}

// Attention in parts, where no layer that attends writes the cache: the text makes the tokens of the threads.
static void parts_of_attention(void **state)
{
  (void)state;
  if (!shims_there()) skip();
  int32_t token[2][3];
  for (int text = 0; text < 2; text++) {
    struct serve *s = opened_with("tiny_llama.json", (struct mega_sizes){.rows = 1, .workers = 3, .context = 70, .steps = 4, .parts = 2}, text);
    stepped(s, &(struct serve_row){.token = 7}, 3, token[text], NULL);
    serve_close(s);
  }
  assert_memory_equal(token[0], token[1], sizeof token[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(llama_serves),       cmocka_unit_test(qwen3_serves), cmocka_unit_test(text_serves),     cmocka_unit_test(steps_of_a_launch),
      cmocka_unit_test(parts_of_attention), cmocka_unit_test(refused),      cmocka_unit_test(weights_by_name), cmocka_unit_test(hung_and_on),
  };
  return cmocka_run_group_tests(tests, folder_enter, folder_leave);
}
