// Syntactically correct kernels without a meaning, made from every kernel of the tree by other numbers, names and layouts. Lowering gives atoms that
// fit their rows, or an error with a place, without a crash.
#include "texts.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CASES = 6000, MOST = 12288 };

static size_t word_at(const char *text, size_t at) // its length
{
  size_t n = 0;
  while (isalnum((unsigned char)text[at + n]) || text[at + n] == '_') n++;
  return n;
}

static size_t bracket_at(const char *text, size_t at) // [...] without nesting
{
  size_t n = strcspn(text + at + 1, "[]\n");
  return text[at] == '[' && text[at + 1 + n] == ']' ? n + 2 : 0;
}

static size_t part(const char *text, struct rng *r, bool bracket, size_t *at)
{
  size_t length = strlen(text);
  for (int tries = 0; tries < 200; tries++) {
    *at = rng_below(r, length);
    if (!bracket && *at && (isalnum((unsigned char)text[*at - 1]) || text[*at - 1] == '_')) continue;
    size_t n = bracket ? bracket_at(text, *at) : word_at(text, *at);
    if (n && (bracket || isdigit((unsigned char)text[*at]) || strchr("%#@<", text[*at ? *at - 1 : 0]))) return n;
  }
  return 0;
}

// One number by another, one name by another of the same text, one [...] by another.
static bool mutate(struct rng *r, char *text)
{
  static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", "7", "8", "12", "16", "24", "32", "64", "96", "128", "256", "1024"};
  bool bracket = rng_below(r, 3) == 0;
  size_t at, from, n = part(text, r, bracket, &at), length = strlen(text);
  if (!n) return false;
  char by[256] = "";
  if (!bracket && isdigit((unsigned char)text[at]))
    snprintf(by, sizeof by, "%s", numbers[rng_below(r, COUNT(numbers))]);
  else {
    size_t m = part(text, r, bracket, &from);
    if (!m || m >= sizeof by) return false;
    snprintf(by, m + 1, "%s", text + from);
  }
  size_t m = strlen(by);
  if (length + m >= MOST) return false;
  memmove(text + at + m, text + at + n, length - at - n + 1);
  memcpy(text + at, by, m);
  return true;
}

static void whole(const struct tile_kernel *k)
{
  assert_true(k->lowered);
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_SH) assert_true(k->buffers[i].offset >= 0 && k->buffers[i].offset + k->buffers[i].bytes <= k->shared_bytes);
  for (int i = 0; i < k->nspecs; i++) {
    const struct tile_atom *a = k->specs[i].atom;
    assert_true(k->specs[i].decomposed || k->specs[i].kind == SPEC_ALLOCATE || a);
    if (!a) continue;
    assert_true(a->nmodes >= 0 && a->nmodes <= TILE_MODES && a->nreduce <= a->nmodes);
    for (int m = 0; m < a->nmodes; m++) assert_true(a->extent[m] > 1);
    for (int o = 0; o < a->nout + a->nin; o++) assert_true(a->operand[o].map < k->nmaps && a->operand[o].nguards <= TILE_DIMS);
  }
}

static bool lowered(const char *text, int arch, bool *read)
{
  struct arena mem = {0};
  struct err e = {0};
  struct tile_program *p;
  bool ok = *read = !tile_parse(&mem, "mutant.tile", text, &p, &e);
  for (int i = 0; ok && i < p->nkernels; i++) {
    ok = !tile_lower(p, p->kernels[i], arch, &e);
    if (ok)
      whole(p->kernels[i]);
    else
      assert_true(e.id == ERR_TILE && *e.text && e.at.line > 0);
  }
  arena_close(&mem);
  return ok;
}

static void mutants(void **state)
{
  (void)state;
  struct texts t;
  struct rng r = {11};
  int read = 0, good = 0;
  assert_true(texts_all(&t));
  for (int i = 0; i < CASES; i++) {
    char text[MOST];
    const char *from = t.text[rng_below(&r, (uint64_t)t.n)];
    if (strlen(from) >= MOST) continue;
    strcpy(text, from);
    for (int k = rng_below(&r, 4) ? 1 : 3; k; k--) mutate(&r, text);
    bool is_read;
    good += lowered(text, target_gpu_at((int)rng_below(&r, (uint64_t)target_gpus()))->arch, &is_read);
    read += is_read;
  }
  print_message("%d mutants, %d are read, %d lowered\n", CASES, read, good);
  assert_true(read > CASES / 10 && good > CASES / 20 && good < read);
  arena_close(&t.mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(mutants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
