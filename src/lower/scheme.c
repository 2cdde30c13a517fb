// The table of schemes, and choices over all of them.
#include "lower/count.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED = 768, MOST_KNOB = 65535 }; // ASKED: settings of a scheme that are costed; MOST_KNOB: largest value that scheme_parse accepts

#define SCHEME(id, needs) extern const struct scheme scheme_##id;
#include "lower/scheme.def"
#undef SCHEME

static const struct {
  const struct scheme *scheme;
  uint32_t needs;
} table[] = {
#define SCHEME(id, needs) {&scheme_##id, needs},
#include "lower/scheme.def"
#undef SCHEME
};

int scheme_count(void) { return COUNT(table); }
const struct scheme *scheme_at(int i) { return table[i].scheme; }
uint32_t scheme_needs(int i) { return table[i].needs; }

bool scheme_runs(int scheme, const struct target *gpu, char why[160])
{
  const struct target *t = target_gpu(gpu->arch);
  struct str lacks = {0};
  *why = 0;
  capability_text(scheme_needs(scheme) & ~gpu->can, &lacks);
  if (lacks.n) snprintf(why, 160, "needs %s, which %s does not have", str_text(&lacks), t ? t->name : "the target");
  return str_free(&lacks), !*why;
}

bool scheme_takes(int scheme, const struct lower_job *j, char why[160])
{
  const struct scheme *x = scheme_at(scheme);
  if (!scheme_runs(scheme, j->gpu, why)) return false;
  if (j->tail && !x->tails)
    snprintf(why, 160, "takes no tail");
  else if (j->n->joins && !x->joins)
    snprintf(why, 160, "joins and splits no parts");
  else if (j->n->chooses && !x->chooses)
    snprintf(why, 160, "takes no data-dependent indices");
  return !*why;
}

// Appends the reason of a scheme. All reasons are kept, because it is unknown which scheme came closest.
static void add_reason(char why[256], const char *scheme, const char *reason)
{
  size_t n = strlen(why);
  snprintf(why + n, 256 - n, "%s%s: %s", n ? "; " : "", scheme, reason);
}

// Inserts by cost. Settings of equal cost keep the scheme's order.
static int insert(struct choice *out, int n, int most, const struct choice *c)
{
  int i = n < most ? n++ : n;
  if (i == most && out[--i].cost <= c->cost) return n;
  for (; i > 0 && out[i - 1].cost > c->cost; i--) out[i] = out[i - 1];
  out[i] = *c;
  return n;
}

bool scheme_counts(const struct scheme *s, const struct lower_job *j, const struct knobs *k, struct kernel_counts *out)
{
  struct arena_mark mark = arena_mark(j->mem);
  char why[160];
  const void *plan = s->plan(j, k, why);
  const bool fits = plan && s->count(plan, out);
  return arena_reset(j->mem, mark), fits;
}

int scheme_emit(const struct scheme *s, const struct lower_job *j, const struct knobs *k, struct lower_out *out, struct err *e)
{
  char why[160] = "";
  const void *plan = s->plan(j, k, why);
  *out = (struct lower_out){0};
  if (!plan) return err_set(e, ERR_TARGET, NOWHERE, "%s by %s: %s", j->name, s->name, *why ? why : "settings that do not fit");
  return s->emit(plan, (struct text){.out = &out->text, .marks = j->marks}, out), OK;
}

double scheme_cost(const struct scheme *s, const struct lower_job *j, const struct knobs *k)
{
  struct kernel_counts counts;
  return scheme_counts(s, j, k, &counts) ? kernel_time(&counts, j->gpu, NULL) : INFINITY;
}

// Merges the choices of all schemes. Costs are less accurate between schemes than within one. So each turn takes the next cheapest choice of each
// scheme, the cheaper ones first, and a caller that measures the first few measures all schemes. Scheme s has got[s] choices at c + s * most.
static int take_turns(const struct choice *c, const int *got, int most, struct choice *out)
{
  int n = 0;
  for (int turn = 0; turn < most && n < most; turn++) {
    int from = n;
    for (int s = 0; s < scheme_count(); s++)
      if (turn < got[s]) n = from + insert(out + from, n - from, most - from, &c[s * most + turn]);
  }
  return n;
}

int scheme_choices(const struct lower_job *j, int most, struct choice *out, char why[256])
{
  struct knobs k[ASKED];
  struct lower_job asked = *j; // choices() stores the counts of each setting: planning each setting again would take as long again
  asked.counts = NEWS(j->mem, struct kernel_counts, ASKED);
  struct choice *all = NEWS(j->mem, struct choice, scheme_count() * most);
  int *kept = NEWS(j->mem, int, scheme_count());
  *why = 0;
  for (int s = 0; s < scheme_count(); s++) {
    const struct scheme *x = scheme_at(s);
    char reason[160] = "";
    memset(k, 0, sizeof k);
    int got = scheme_takes(s, j, reason) ? x->choices(&asked, ASKED, k, reason) : 0;
    if (!got) add_reason(why, x->name, reason);
    for (int i = 0; i < got; i++) {
      struct choice c = {s, k[i], j->tail, kernel_time(&asked.counts[i], j->gpu, NULL)};
      if (isfinite(c.cost)) kept[s] = insert(all + s * most, kept[s], most, &c);
    }
  }
  return take_turns(all, kept, most, out);
}

int scheme_settings(const struct lower_job *j, int scheme, int most, struct choice *out)
{
  const struct scheme *x = scheme_at(scheme);
  struct knobs *k = NEWS(j->mem, struct knobs, most);
  char why[160];
  int n = 0;
  if (!scheme_takes(scheme, j, why)) return 0;
  for (int i = 0, all = x->choices(j, most, k, why); i < all; i++) {
    struct choice c = {scheme, k[i], j->tail, scheme_cost(x, j, &k[i])};
    if (isfinite(c.cost)) out[n++] = c;
  }
  return n;
}

static const char library[] = "cublaslt", meeting[] = "ranks", epilogue[] = "epilogue";

void scheme_text(const struct choice *c, struct str *out)
{
  const struct scheme *s = c->scheme < 0 ? NULL : scheme_at(c->scheme);
  str_add(out, "%s", s ? s->name : c->scheme == SCHEME_MEETING ? meeting : library);
  for (int i = 0; s && i < KNOBS && s->knob[i]; i++)
    if (!s->named || i < s->named || c->k.v[i]) str_add(out, " %s=%d", s->knob[i], c->k.v[i]);
  if (c->tail && s) str_add(out, " tail");
  if (c->tail && !s) str_add(out, " %s=%s", epilogue, blas_epilogue_name((enum epilogue)(c->k.v[0] - 1)));
}

static int knob_named(const struct scheme *s, const char *name, size_t n)
{
  for (int k = 0; k < KNOBS && s->knob[k]; k++)
    if (strlen(s->knob[k]) == n && !memcmp(s->knob[k], name, n)) return k;
  return -1;
}

int *scheme_knob_at(struct choice *c, const char *name)
{
  int k = c->scheme < 0 ? -1 : knob_named(scheme_at(c->scheme), name, strlen(name));
  return k < 0 ? NULL : &c->k.v[k];
}

int64_t scheme_knob(const struct choice *c, const char *name)
{
  struct choice copy = *c;
  const int *at = scheme_knob_at(&copy, name);
  return at ? *at : 0;
}

static bool parse_knob(const char *word, int *out)
{
  char *end;
  if (!isdigit((unsigned char)*word)) return false;
  const long v = strtol(word, &end, 10);
  *out = (int)MIN(v, MOST_KNOB);
  return !*end && v <= MOST_KNOB;
}

// Parses a word of a scheme, "tail" or "stages=3", or of a product, "epilogue=relu_bias".
static bool parse_word(const char *word, struct choice *out)
{
  const struct scheme *s = out->scheme == SCHEME_LIBRARY ? NULL : scheme_at(out->scheme);
  const char *equals = strchr(word, '=');
  size_t n = equals ? (size_t)(equals - word) : strlen(word);
  enum epilogue e;
  if (!s) {
    if (!equals || n != sizeof epilogue - 1 || memcmp(word, epilogue, n) != 0 || !blas_epilogue_find(equals + 1, &e)) return false;
    return out->tail = true, out->k.v[0] = (int)e + 1, true;
  }
  if (!strcmp(word, "tail")) return out->tail = true;
  int k = equals ? knob_named(s, word, n) : -1;
  return k >= 0 && parse_knob(equals + 1, &out->k.v[k]);
}

// Parses "mma warps=4 stages=3 tail". Omitted knobs stay 0.
bool scheme_parse(const char *text, struct choice *out)
{
  char word[64];
  int n = 0, scheme = 0;
  if (sscanf(text, "%63s%n", word, &n) != 1) return false;
  while (scheme < scheme_count() && strcmp(scheme_at(scheme)->name, word) != 0) scheme++;
  if (!strcmp(word, meeting)) return *out = (struct choice){.scheme = SCHEME_MEETING}, sscanf(text + n, "%63s", word) != 1;
  if (scheme == scheme_count() && strcmp(word, library) != 0) return false;
  *out = (struct choice){.scheme = scheme == scheme_count() ? SCHEME_LIBRARY : scheme};
  while (text += n, sscanf(text, "%63s%n", word, &n) == 1) {
    if (out->scheme == SCHEME_LIBRARY && !strcmp(word, "algorithm")) break; // the algorithm is not part of a choice (gpu/gpu_product.c)
    if (!parse_word(word, out)) return false;
  }
  return true;
}
