// Text of a normal form: "S64 exp(S64 QK)V / S64 exp(S64 QK)". Juxtaposition is a product and binds
// tighter than " / "; S64 is a sum factor and covers the product to its right; equal monomials are
// counted, "2 AB".
#include "expr/normal.h"

#include <inttypes.h>
#include <string.h>

struct expr_print_printer {
  const struct expr *ex;
  const struct expr_names *names;
  struct str *out;
  bool close; // a one-letter name may follow without a space
};

static void print_poly(struct expr_print_printer *p, nf e);

// Begins a factor. A space separates factors, except between one-letter names and brackets.
static void gap(struct expr_print_printer *p, bool tight)
{
  char last = p->out->n ? p->out->p[p->out->n - 1] : ' ';
  if (last != ' ' && last != '(' && !(tight && p->close)) str_add(p->out, " ");
  p->close = tight;
}

static void print_call(struct expr_print_printer *p, const char *fn, nf e)
{
  gap(p, false);
  str_add(p->out, "%s(", fn);
  print_poly(p, e);
  str_add(p->out, ")");
  p->close = true;
}

static void print_args(struct expr_print_printer *p, const struct expr_atom *a)
{
  str_add(p->out, "(");
  for (uint32_t i = 0; i < a->n; i++) {
    str_add(p->out, i ? ", " : "");
    print_poly(p, a->arg[i]);
  }
  str_add(p->out, ")");
  p->close = true;
}

static void print_atom(struct expr_print_printer *p, const struct expr_atom *a)
{
  const char *name = NULL;
  switch (a->kind) {
  case ATOM_INPUT: name = p->names->atom(p->names->arg, (uint32_t)a->tag); break;
  case ATOM_OPAQUE: name = p->names->fn(p->names->arg, (uint32_t)a->tag); break;
  case ATOM_EXP: name = "exp"; break;
  case ATOM_SQRT: name = "sqrt"; break;
  case ATOM_MAX: name = "max"; break;
  case ATOM_EWMAX: name = "ewmax"; break;
  case ATOM_EWMIN: name = "ewmin"; break;
  }
  gap(p, a->kind == ATOM_INPUT && strlen(name) == 1);
  str_add(p->out, "%s", name);
  if (a->kind == ATOM_MAX) str_add(p->out, "%" PRIu64, a->tag);
  if (a->kind != ATOM_INPUT) print_args(p, a);
}

static uint32_t run_length(const uint32_t *a, uint32_t n)
{
  uint32_t i = 1;
  while (i < n && a[i] == a[0]) i++;
  return i;
}

static void print_product(struct expr_print_printer *p, const struct expr_mono *m)
{
  if (m->k > 1) str_add(p->out, "S%" PRIu64 " ", m->k);
  if (!has_numerator(m)) // inside sq
    str_add(p->out, "1");
  if (m->x != NF_EMPTY) print_call(p, "exp", m->x);
  if (m->s != NF_ONE) print_call(p, "sqrt", m->s);
  if (m->q != NF_ONE) print_call(p, "sq", m->q);
  for (uint32_t i = 0, run; i < m->n; i += run) {
    run = run_length(m->a + i, m->n - i);
    print_atom(p, atom_at(p->ex, m->a[i]));
    if (run > 1) str_add(p->out, "^%u", run);
  }
}

static void print_mono(struct expr_print_printer *p, const struct expr_mono *m)
{
  print_product(p, m);
  if (m->d == NF_ONE) return;
  str_add(p->out, " / ");
  const struct poly *d = poly_at(p->ex, m->d);
  bool plain = d->n == 1 && mono_at(p->ex, d->m[0])->d == NF_ONE;
  str_add(p->out, plain ? "" : "(");
  print_poly(p, m->d);
  str_add(p->out, plain ? "" : ")");
}

static void print_poly(struct expr_print_printer *p, nf e)
{
  const struct poly *sum = poly_at(p->ex, e);
  for (uint32_t i = 0, run; i < sum->n; i += run) {
    run = run_length(sum->m + i, sum->n - i);
    str_add(p->out, i ? " + " : "");
    if (run > 1) str_add(p->out, "%u ", run);
    print_mono(p, mono_at(p->ex, sum->m[i]));
  }
}

void expr_print(const struct expr *ex, nf e, const struct expr_names *names, struct str *out)
{
  if (nf_known(e))
    print_poly(&(struct expr_print_printer){ex, names, out, false}, e);
  else
    str_add(out, e == EXPR_NEVER ? "<too big for the target>" : "<too big>");
}
