// The laws of ranks: each holds wherever it applies, in both directions; and programs whose operators of all ranks they move.
#include "front/front.h"
#include "ranks/ranks.h"
#include "thin.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// ---- every law ----

static const char *const samples[][3] = {
    // what a class may stand for, without the `(`, and what follows the arguments
    {"linear", "neg", ""},           {"linear", "mul_scalar", ", 0.5"},
    {"linear", "sum", ", 1"},        {"linear", "mean", ", 0"},
    {"linear", "transpose", ""},     {"scale", "neg", ""},
    {"scale", "mul_scalar", ", -3"}, {"point", "exp", ""},
    {"point", "relu", ""},           {"pair", "add", ""},
    {"pair", "maximum", ""},         {"pair", "div", ""},
    {"fold", "sum", ", 1"},          {"fold", "max", ", 0"},
    {"fold", "max", ", 1"},
};

static const char *sample_of(const char *word, size_t n, int choice, bool *last)
{
  int k = 0;
  const char *found = NULL;
  *last = true;
  for (size_t i = 0; i < COUNT(samples); i++) {
    if (strlen(samples[i][0]) != n || memcmp(samples[i][0], word, n)) continue;
    if (k == choice) found = samples[i][1];
    if (k > choice) *last = false;
    k++;
  }
  return found;
}

static const char *rest_of(const char *word, size_t n, int choice)
{
  for (size_t i = 0; i < COUNT(samples); i++)
    if (strlen(samples[i][0]) == n && !memcmp(samples[i][0], word, n) && !choice--) return samples[i][2];
  return "";
}

// A side as an expression of the language: classes become operators, d and `ranks` numbers.
static void write_side(struct str *out, const char **p, int choice, int d, bool *last)
{
  const char *word = *p, *rest = "";
  while (isalpha((unsigned char)**p) || **p == '_') ++*p;
  const size_t n = (size_t)(*p - word);
  bool mine;
  const char *name = sample_of(word, n, choice, &mine);
  if (name) rest = rest_of(word, n, choice), *last = mine;
  if (**p != '(') {
    if (n == 1 && *word == 'd')
      str_add(out, "%d", d);
    else if (n == 5 && !memcmp(word, "ranks", n))
      str_add(out, "2");
    else
      str_add(out, "%.*s", (int)n, word);
    return;
  }
  str_add(out, "%.*s(", name ? (int)strlen(name) : (int)n, name ? name : word);
  while (**p != ')') {
    *p += 1;
    if (**p == ' ') ++*p, str_add(out, ", ");
    write_side(out, p, choice, d, last);
  }
  ++*p;
  str_add(out, "%s)", rest);
}

static struct graph *program_of(struct arena *mem, const char *side, int choice, int d, const char *shape, bool *last)
{
  struct err e = {0};
  struct str text = {0};
  struct graph *g = NULL;
  str_add(&text, "program law {\n world 2\n x: f32[8, 4] shard(0)\n y: f32[8, 4] shard(0)\n X: f32[4, 4]\n Y: f32%s\n s = ", shape);
  write_side(&text, &side, choice, d, last);
  str_add(&text, "\n return all_gather(all_gather(s, 0), 1)\n}\n");
  if (front_parse(mem, str_text(&text), text.n, "law", 0, NULL, &g, &e)) g = NULL; // shapes that the law is not for
  str_free(&text);
  return g;
}

static int node_of(const struct graph *g)
{
  for (int t = 0; t < g->ntensors; t++)
    if (g->tensors[t].name && !strcmp(g->tensors[t].name, "s")) return g->tensors[t].node;
  return -1;
}

// How often the law applies to the program; each time the result is the same program by a proof.
static int applies(struct arena *mem, const struct graph *g, int law, bool back)
{
  bool *varies = NEWS(mem, bool, g->ntensors + 1);
  struct ranks_term *side[] = {ranks_side(mem, ranks_laws[law].left), ranks_side(mem, ranks_laws[law].right)};
  const struct ranks_rewriting w = {g, varies, side[back], side[!back]};
  int n = 0;
  graph_varying(g, varies);
  for (int d = 0; d < MAX_DIMS; d++) {
    const struct graph *other = ranks_rewrite(mem, &w, node_of(g), d);
    struct certificate c;
    struct err e = {0};
    if (!other) continue;
    if (verify_equal(g, other, NULL, &c, &e)) fail_msg("%s: %s", ranks_laws[law].name, e.text);
    if (c.scope != EVIDENCE_PROVED) {
      struct str text = {0};
      graph_print(g, &text), graph_print(other, &text);
      fail_msg("the law %s is not proved: %s\n%s", ranks_laws[law].name, c.proof, str_text(&text));
    }
    n++;
  }
  return n;
}

// The sanitizers run the first sample to which a law applies.
static void every_law_holds(void **state)
{
  (void)state;
  const bool first = thinned(2) > 1;
  static const char *const shapes[] = {"[4, 4]", "[4, 1]", "[1, 4]", "[8, 4]", "[4, 8]"};
  for (int law = 0; law < RANKS_LAWS; law++)
    for (int back = 0; back < 2; back++) {
      int n = 0;
      bool last = false;
      for (int choice = 0; !last && !(first && n); choice++)
        for (int d = 0; d < 2; d++)
          for (size_t shape = 0; shape < COUNT(shapes) && !(first && n); shape++) {
            struct arena mem = {0};
            last = true;
            const struct graph *g = program_of(&mem, back ? ranks_laws[law].right : ranks_laws[law].left, choice, d, shapes[shape], &last);
            if (g) n += applies(&mem, g, law, back);
            arena_close(&mem);
          }
      if (!n) fail_msg("the law %s, %s, applies to no sample", ranks_laws[law].name, back ? "from right to left" : "from left to right");
    }
}

// ---- programs ----

static const struct {
  const char *program, *target;
  int meetings; // of the result
  const char *laws;
  bool moves; // tests/ranks/moved has the result
} rows[] = {
    {"two_sums", "cpu", 1, "sum", true},
    {"two_sums", "sm_90a", 1, "sum", true},
    {"norm_between", "cpu", 1, "", false}, // computes once what all ranks compute alike
    {"norm_between", "sm_90a", 2, "scattered", true},
    {"late", "sm_89", 1, "rows", true},
};

static struct graph *load(struct arena *mem, const char *path)
{
  struct graph *g, *plain;
  struct err e = {0};
  if (front_load(mem, path, 0, NULL, &g, &e) || graph_expand(mem, g, false, &plain, &e)) fail_msg("%s: %s", path, e.text);
  return plain;
}

static void operators_of_all_ranks_move(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    if (thinned(2) > 1 && !strcmp(rows[i].target, "cpu")) continue; // the same programs for a GPU
    struct arena mem = {0};
    struct err e = {0};
    struct target t;
    struct ranks_moved m;
    const struct verify_opts o = {.threads = 1};
    const struct graph *g = load(&mem, arena_printf(&mem, "tests/ranks/%s.mica", rows[i].program));
    const char *moved = arena_printf(&mem, "tests/ranks/moved/%s.%s.mica", rows[i].program, rows[i].target);
    assert_int_equal(target_open(rows[i].target, 2, true, &t, &e), OK);
    assert_int_equal(ranks_move(&mem, g, &t, &o, EVIDENCE_PROVED, &m, &e), OK);
    assert_int_equal(ranks_meetings(m.g), rows[i].meetings);
    if (!strstr(m.laws, rows[i].laws)) fail_msg("%s: by %s, not by %s", moved, m.laws, rows[i].laws);
    if (!rows[i].moves) {
      assert_ptr_equal(m.g, g);
      assert_true(m.after == m.before);
    } else {
      assert_true(m.after < m.before && m.after == ranks_cost(m.g, &t));
      assert_int_equal(m.cert.scope, EVIDENCE_PROVED);
      if (!graph_same(m.g, load(&mem, moved))) {
        struct str text = {0};
        graph_print(m.g, &text);
        fail_msg("%s is not what was found:\n%s", moved, str_text(&text));
      }
    }
    arena_close(&mem);
  }
}

// With `--accept proved`, operators move only if the verifier has a proof. The sanitizers run tests without a proof in tests/verify.
static void nothing_moves_unproved(void **state)
{
  (void)state;
  if (thinned(2) > 1) skip();
  struct arena mem = {0};
  struct err e = {0};
  struct target t;
  struct ranks_moved m;
  const struct verify_opts o = {.threads = 1, .no_proof = true};
  const struct graph *g = load(&mem, "tests/ranks/late.mica");
  assert_int_equal(target_open("sm_89", 1, true, &t, &e), OK);
  assert_int_equal(ranks_move(&mem, g, &t, &o, EVIDENCE_PROVED, &m, &e), OK);
  assert_ptr_equal(m.g, g);
  assert_true(m.proved > 0);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_law_holds),
      cmocka_unit_test(operators_of_all_ranks_move),
      cmocka_unit_test(nothing_moves_unproved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
