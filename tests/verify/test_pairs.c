// The attack on the verifier by generated pairs (pairs.h). Without options a short run that asks nothing of the
// verifier; scripts/attack.sh makes long ones of many:
//   test_pairs [--pairs N] [--from I] [--seed S] [--kind K] [--heavy PERCENT] [--threads N] [--verbose]
// Prints how the pairs of each kind were judged. `thrown` were not what their kind says. Pair I of seed S is the same
// in every run. With options the exit status is 1 where one was judged wrongly: unequal and accepted, equal and called
// not equal. test: timeout 300
#include "front/front.h"
#include "pairs.h"
#include "thin.h"

#include <stdio.h>
#include <string.h>

enum { QUICK = 300, EQUAL_OF = 5 }; // one of five pairs is equal

struct options {
  int64_t pairs, from;
  uint64_t seed;
  int kind, heavy, threads; // kind -1: all
  bool verbose;
};
struct row {
  int64_t pairs, thrown, by[JUDGEMENTS], wrong;
};
struct table {
  struct row row[KINDS];
  double slowest;
  int64_t slowest_pair;
};

static int usage(const char *what)
{
  fprintf(stderr, "test_pairs: %s\n  hint: the options stand in the head of tests/verify/test_pairs.c; kinds are", what);
  for (int k = 0; k < KINDS; k++) fprintf(stderr, " %s", pair_kinds[k].name);
  fprintf(stderr, "\n");
  return 2;
}

static bool read_options(int argc, char **argv, struct options *o)
{
  *o = (struct options){.pairs = QUICK / MAX(thinned(10), quick_step(3)), .seed = 1, .kind = -1, .threads = 1};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(name, "--verbose")) {
      o->verbose = true;
      continue;
    }
    if (!value) return false;
    i++;
    int64_t number = strtoll(value, NULL, 10);
    if (!strcmp(name, "--pairs"))
      o->pairs = number;
    else if (!strcmp(name, "--from"))
      o->from = number;
    else if (!strcmp(name, "--seed"))
      o->seed = (uint64_t)number;
    else if (!strcmp(name, "--heavy"))
      o->heavy = (int)number;
    else if (!strcmp(name, "--threads"))
      o->threads = (int)number;
    else if (strcmp(name, "--kind"))
      return false;
    for (int k = 0; k < KINDS && !strcmp(name, "--kind"); k++)
      if (!strcmp(value, pair_kinds[k].name)) o->kind = k;
    if (!strcmp(name, "--kind") && o->kind < 0) return false;
  }
  return true;
}

static enum kind_id kind_of(const struct options *o, int64_t i)
{
  if (o->kind >= 0) return (enum kind_id)o->kind;
  bool equal = i % EQUAL_OF == 0;
  int of = 0;
  for (int k = 0; k < KINDS; k++) of += pair_kinds[k].equal == equal;
  int64_t turn = (equal ? i / EQUAL_OF : i - i / EQUAL_OF - 1) % of;
  for (int k = 0;; k++)
    if (pair_kinds[k].equal == equal && !turn--) return (enum kind_id)k;
}

static enum judgement judge_texts(const struct str text[2], const struct options *o, char note[256])
{
  struct arena mem = {0};
  struct graph *g[2];
  struct err e = {0};
  enum judgement j = REFUSED;
  int s = OK;
  for (int i = 0; i < 2 && !s; i++) s = front_parse(&mem, str_text(&text[i]), strlen(str_text(&text[i])), i ? "g" : "p", 0, NULL, &g[i], &e);
  if (s)
    snprintf(note, 256, "%s", e.text);
  else
    j = judge(g[0], g[1], o->seed, o->threads, note);
  arena_close(&mem);
  return j;
}

static bool is_wrong(const struct kind *k, enum judgement j) { return k->equal ? j == NOT_EQUAL : j == PROVED || j == FULL || j == REDUCED; }

static void pair(struct table *t, const struct options *o, int64_t i)
{
  enum { TRIES = 20 };
  enum kind_id k = kind_of(o, i);
  struct row *row = &t->row[k];
  for (int try = 0; try < TRIES; try++) {
    struct str text[2] = {{0}};
    uint64_t seed = hash_mix(hash_mix(o->seed, (uint64_t)i), (uint64_t)try);
    char note[256] = "";
    bool drawn = pair_draw(k, seed, o->heavy, text);
    if (drawn) {
      double begin = now_seconds();
      enum judgement j = judge_texts(text, o, note);
      double took = now_seconds() - begin;
      if (took > t->slowest) t->slowest = took, t->slowest_pair = i;
      bool wrong = is_wrong(&pair_kinds[k], j);
      row->pairs++, row->by[j]++, row->wrong += wrong;
      if (wrong || o->verbose)
        printf("# pair %lld, %s: %s%s, %.2f s. %s\n%s%s\n", (long long)i, pair_kinds[k].name, judgement_names[j], wrong ? ", WRONG" : "", took, note,
               str_text(&text[0]), str_text(&text[1]));
    } else {
      row->thrown++;
      if (o->verbose) printf("# pair %lld, %s: thrown away\n%s%s\n", (long long)i, pair_kinds[k].name, str_text(&text[0]), str_text(&text[1]));
    }
    str_free(&text[0]), str_free(&text[1]);
    if (drawn) return;
  }
}

static void print_row(const char *name, const struct row *r)
{
  printf("%-15s %7lld", name, (long long)r->pairs);
  for (int j = 0; j < JUDGEMENTS; j++) printf(" %9lld", (long long)r->by[j]);
  printf(" %7lld %7lld\n", (long long)r->wrong, (long long)r->thrown);
}

static int64_t print(const struct table *t)
{
  int64_t wrong = 0;
  printf("%-15s %7s", "kind", "pairs");
  for (int j = 0; j < JUDGEMENTS; j++) printf(" %9s", judgement_names[j]);
  printf(" %7s %7s\n", "wrong", "thrown");
  for (int k = 0; k < KINDS; k++) {
    if (t->row[k].pairs + t->row[k].thrown) print_row(pair_kinds[k].name, &t->row[k]);
    wrong += t->row[k].wrong;
  }
  if (t->slowest > 0) printf("# the slowest: pair %lld, %.1f s\n", (long long)t->slowest_pair, t->slowest);
  return wrong;
}

static bool decided(const struct table *t)
{
  int64_t equal = 0, undecided = 0;
  for (int k = 0; k < KINDS; k++)
    if (pair_kinds[k].equal && !pair_kinds[k].beyond) equal += t->row[k].pairs, undecided += t->row[k].by[UNDECIDED] + t->row[k].by[REFUSED];
  if (undecided > 1 + equal / 100) printf("# %lld of %lld equal pairs are undecided\n", (long long)undecided, (long long)equal);
  return undecided <= 1 + equal / 100;
}

int main(int argc, char **argv)
{
  struct options o;
  struct table t = {0};
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (!read_options(argc, argv, &o)) return usage("an option is not known or lacks its value");
  for (int64_t i = o.from; i < o.from + o.pairs; i++) pair(&t, &o, i);
  return print(&t) || !decided(&t) ? 1 : 0;
}
