// The table of schemes, and choices over all of them.
#include "lower/count.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED = 768 }; // settings of a scheme, of which the cheapest stay

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

bool scheme_runs(int scheme, const struct gpu_limits *gpu, char why[160])
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
  return !*why;
}

// Of the reasons that schemes give for not taking a kernel, all are kept, since which came closest nobody knows.
static void add_reason(char why[256], const char *scheme, const char *reason)
{
  size_t n = strlen(why);
  snprintf(why + n, 256 - n, "%s%s: %s", n ? "; " : "", scheme, reason);
}

// Insertion keeps the order in which schemes list what costs the same.
static int insert(struct choice *out, int n, int most, const struct choice *c)
{
  int i = n < most ? n++ : n;
  if (i == most && out[--i].cost <= c->cost) return n;
  for (; i > 0 && out[i - 1].cost > c->cost; i--) out[i] = out[i - 1];
  out[i] = *c;
  return n;
}

double scheme_cost(const struct scheme *s, const struct lower_job *j, const struct knobs *k)
{
  struct kernel_counts counts;
  return s->count(j, k, &counts) ? kernel_time(&counts, j->gpu, NULL) : INFINITY;
}

// Schemes' models err more between schemes than within one: after the cheapest of all, the schemes take turns, each with its
// cheapest first, in the order of their cheapest. Those who measure a few meet all of them. c: so many of each scheme in `got`,
// `most` apart.
static int take_turns(const struct choice *c, const int *got, int most, struct choice *out)
{
  int n = 0;
  for (int turn = 0; turn < most && n < most; turn++) {
    int from = n;
    for (int s = 0; s < scheme_count() && n < most; s++) {
      int at = n;
      if (turn >= got[s]) continue;
      for (; at > from && out[at - 1].cost > c[s * most + turn].cost; at--) out[at] = out[at - 1];
      out[at] = c[s * most + turn], n++;
    }
  }
  return n;
}

int scheme_choices(const struct lower_job *j, int most, struct choice *out, char why[256])
{
  struct knobs k[ASKED];
  struct lower_job asked = *j; // schemes say with their choices what each will do: to plan each once more would take as long again
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

static const char library[] = "cublaslt", ends[] = "epilogue=";

static void product_choice_text(const struct choice *c, struct str *out)
{
  str_add(out, "%s", library);
  if (c->tail) str_add(out, " %s%s", ends, blas_epilogue_name((enum epilogue)(c->k.v[0] - 1)));
}

// "cublaslt epilogue=relu_bias algorithm 3": the algorithm is not chosen by those who ask for the product (gpu/product.c).
static bool product_parse(const char *text, struct choice *out)
{
  char name[24];
  enum epilogue e;
  size_t n = strspn(text, " ");
  *out = (struct choice){.scheme = SCHEME_LIBRARY};
  if (strncmp(text + n, ends, sizeof ends - 1) != 0) return !text[n] || !strncmp(text + n, "algorithm ", 10);
  text += n + sizeof ends - 1, n = strcspn(text, " ");
  snprintf(name, sizeof name, "%.*s", (int)MIN(n, sizeof name), text);
  if (!blas_epilogue_find(name, &e)) return false;
  return out->tail = true, out->k.v[0] = (int)e + 1, true;
}

void scheme_text(const struct choice *c, struct str *out)
{
  if (c->scheme == SCHEME_LIBRARY) {
    product_choice_text(c, out);
    return;
  }
  const struct scheme *s = scheme_at(c->scheme);
  str_add(out, "%s", s->name);
  for (int i = 0; i < KNOBS && s->knob[i]; i++) str_add(out, " %s=%d", s->knob[i], c->k.v[i]);
  if (c->tail) str_add(out, " tail");
}

// "mma warps=4 stages=3 tail"; knobs that are left out stay 0.
bool scheme_parse(const char *text, struct choice *out)
{
  size_t n = strcspn(text, " ");
  if (n == sizeof library - 1 && !memcmp(text, library, n)) return product_parse(text + n, out);
  *out = (struct choice){.scheme = -1};
  for (int i = 0; i < scheme_count(); i++)
    if (strlen(scheme_at(i)->name) == n && !memcmp(scheme_at(i)->name, text, n)) out->scheme = i;
  if (out->scheme < 0) return false;
  for (text += n; *text; text += n) {
    text += strspn(text, " ");
    n = strcspn(text, " ");
    const char *equals = memchr(text, '=', n);
    int k = 0;
    if (!n) break;
    if (n == 4 && !memcmp(text, "tail", n)) {
      out->tail = true;
      continue;
    }
    if (!equals) return false;
    const struct scheme *s = scheme_at(out->scheme);
    while (k < KNOBS && s->knob[k] && (strlen(s->knob[k]) != (size_t)(equals - text) || memcmp(s->knob[k], text, (size_t)(equals - text)))) k++;
    if (k == KNOBS || !s->knob[k]) return false;
    out->k.v[k] = atoi(equals + 1);
  }
  return true;
}
