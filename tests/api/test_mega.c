// Persistent kernels by the public interface: options, tensors, texts, weights, launches, faults, and what is refused.
#include "mica.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 2, VOCAB = 101 };

static char *text_of(const char *file)
{
  char path[300];
  snprintf(path, sizeof path, MICA_SOURCE_DIR "/examples/mega/%s", file);
  FILE *f = fopen(path, "r");
  char *text = calloc(1, 1 << 14);
  assert_non_null(f);
  assert_true(fread(text, 1, (1 << 14) - 1, f) > 0);
  fclose(f);
  return text;
}

static struct mica_mega *opened(struct mica_context *m)
{
  struct mica_mega_options o;
  struct mica_mega *x;
  char *text = text_of("tiny_llama.json");
  mica_mega_options_init(&o, sizeof o);
  assert_int_equal(o.size, sizeof o);
  o.rows = ROWS, o.pages = 6, o.workers = 2, o.deadline = 60;
  if (mica_mega_open(m, text, "tiny", &o, &x)) fail_msg("%s", mica_error(m));
  free(text);
  return x;
}

static void steps(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_mega *x = opened(m);
  static const int32_t a[] = {3, 1}, b[] = {2};
  struct mica_mega_row rows[ROWS] = {{0, 7, 0, 2, a, 0, 0, 0}, {1, 9, 0, 1, b, 0, 0, 0}};
  int32_t tokens[4 * ROWS], again[ROWS];
  float logits[ROWS * VOCAB];
  int slots;
  assert_int_equal(mica_mega_rows(x), ROWS);
  assert_int_equal(mica_mega_pages(x, &slots), 6);
  assert_int_equal(slots, 64);
  assert_int_equal(mica_mega_step(x, rows, 1, tokens, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "has no weights yet"));
  assert_int_equal(mica_mega_random(x, 4), MICA_OK);
  if (mica_mega_step(x, rows, 4, tokens, logits)) fail_msg("%s", mica_error(m));
  for (int at = 0; at < 4; at++) { // the same, a launch a step
    assert_int_equal(mica_mega_step(x, rows, 1, again, NULL), MICA_OK);
    for (int r = 0; r < ROWS; r++) assert_int_equal(again[r], tokens[at * ROWS + r]), rows[r].token = again[r], rows[r].position++;
  }
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < VOCAB; v++) assert_true(logits[r * VOCAB + tokens[3 * ROWS + r]] >= logits[r * VOCAB + v]);
  assert_true(mica_mega_seconds(x) > 0 && !*mica_mega_fault(x));
  rows[1].pages = a;
  assert_int_equal(mica_mega_step(x, rows, 1, again, NULL), MICA_USER);
  assert_non_null(strstr(mica_error(m), "row"));
  mica_mega_close(x);
  opened(m); // goes with the context
  mica_close(m);
}

static void weights(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_mega *x = opened(m), *y = opened(m);
  static const int32_t a[] = {1};
  struct mica_mega_row rows[ROWS] = {{0, 7, 0, 1, a, 0, 0, 0}, {.request = -1}};
  int32_t tokens[ROWS], want[ROWS];
  int n = mica_mega_tensors(x), given = 0;
  float *data = malloc(sizeof *data * 100000);
  // One weight by one: those of a model in which each is a constant.
  for (int i = 0; i < n; i++) {
    struct mica_mega_value t = mica_mega_tensor(x, i);
    int64_t count = 1;
    for (int d = 0; d < t.tensor.ndim; d++) count *= t.tensor.shape[d];
    if (t.kind != MICA_MEGA_WEIGHTS) continue;
    assert_true(count <= 100000);
    for (int64_t k = 0; k < count; k++) data[k] = (float)sin((double)(k + i));
    assert_int_equal(mica_mega_weights(x, t.tensor.name, MICA_F32, count, data), MICA_OK);
    assert_int_equal(mica_mega_weights(y, t.tensor.name, MICA_F32, count, data), MICA_OK);
    assert_int_equal(mica_mega_weights(x, t.tensor.name, MICA_F32, count - 1, data), MICA_USER);
    given++;
  }
  assert_int_equal(given, 8);
  assert_string_equal(mica_mega_tensor(x, n).tensor.name, "");
  assert_int_equal(mica_mega_weights(x, "Wqvk", MICA_F32, 1, data), MICA_USER);
  assert_non_null(strstr(mica_error(m), "did you mean Wqkv?"));
  assert_int_equal(mica_mega_step(x, rows, 1, tokens, NULL), MICA_OK);
  assert_int_equal(mica_mega_step(y, rows, 1, want, NULL), MICA_OK);
  assert_int_equal(tokens[0], want[0]);
  assert_int_equal(mica_mega_random(x, 1), MICA_USER);
  free(data);
  mica_close(m);
}

static void texts_and_faults(void **state)
{
  (void)state;
  struct mica_context *m = mica_open();
  struct mica_mega *x = opened(m);
  static const int32_t a[] = {1};
  struct mica_mega_row rows[ROWS] = {{0, 7, 0, 1, a, 0, 0, 0}, {.request = -1}};
  int32_t tokens[ROWS];
  const char *text;
  static const struct {
    const char *what, *has;
  } told[] = {{"plan", "served_attention"}, {"text", "mega model("}, {"proof", "fence"}, {"cuda", "mega_kernel"}, {"events", "wait for event"}};
  for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
    if (mica_mega_tell(x, told[i].what, &text)) fail_msg("%s", mica_error(m));
    if (!strstr(text, told[i].has)) fail_msg("%s has no %s", told[i].what, told[i].has);
  }
  assert_int_equal(mica_mega_tell(x, "nothing", &text), MICA_USER);
  assert_int_equal(mica_mega_trace(x, "/tmp/mica-test-trace.json"), MICA_USER);
  mica_mega_close(x);
  struct mica_mega_options o;
  mica_mega_options_init(&o, sizeof o);
  o.rows = ROWS, o.workers = 2, o.deadline = 0.2;
  char *model = text_of("tiny_llama.json");
  assert_int_equal(mica_mega_open(m, model, "tiny", &o, &x), MICA_OK);
  assert_int_equal(mica_mega_random(x, 1), MICA_OK);
  assert_int_equal(mica_mega_plant(x, true), MICA_OK);
  assert_int_equal(mica_mega_step(x, rows, 1, tokens, NULL), MICA_NO);
  assert_non_null(strstr(mica_mega_fault(x), "waited for"));
  assert_int_equal(mica_mega_plant(x, false), MICA_OK);
  assert_int_equal(mica_mega_step(x, rows, 1, tokens, NULL), MICA_OK);
  assert_string_equal(mica_mega_fault(x), "");

  // Refusals when a model is opened.
  static const struct {
    const char *text, *says;
  } bad[] = {{"", "mega"}, {"{", "bad-json"}, {"{}", "lacks hidden_size"}, {"mega x(", "rows or context"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(mica_mega_open(m, bad[i].text, "file", NULL, &x), MICA_USER);
    if (!strstr(mica_error(m), bad[i].says)) fail_msg("%s", mica_error(m));
  }
  o.engine = "tpu";
  assert_int_equal(mica_mega_open(m, model, "tiny", &o, &x), MICA_USER);
  o.engine = "cpu", o.rows = 65;
  assert_int_equal(mica_mega_open(m, model, "tiny", &o, &x), MICA_USER);
  o.rows = 1, o.deadline = NAN;
  assert_int_equal(mica_mega_open(m, model, "tiny", &o, &x), MICA_USER);
  free(model);
  mica_close(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(steps), cmocka_unit_test(weights), cmocka_unit_test(texts_and_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
