// IRs as text, which is checked by parsing it again. Texts of a GPU's kernels are in pass_lower_text.c.
#include "drive/pass.h"
#include "front/front.h"

#include <string.h>

// ---- kernel graphs ----

void print_graph(const struct ir_value *v, struct str *out) { graph_print(v->g, out); }

int check_graph(const struct ir_value *v, struct err *e) { return graph_check(v->g, e); }

int parse_graph(struct arena *mem, const struct ir_value *v, const char *text, size_t n, struct err *e)
{
  struct graph *g;
  TRY(front_parse(mem, text, n, "graph", 0, NULL, &g, e));
  return graph_same(g, v->g) ? OK : err_set(e, ERR_GRAPH, NOWHERE, "its text parses to another graph");
}

void print_source(const struct ir_value *v, struct str *out) { str_raw(out, str_text(&v->on.x->source), v->on.x->source.n); }

// ---- results ----

static void print_json(json_t *v, struct str *out)
{
  json_text(v, out);
  json_decref(v);
}

void print_certificate(const struct ir_value *v, struct str *out) { print_json(certificate_json(&v->on.x->cert), out); }
void print_report(const struct ir_value *v, struct str *out) { json_text(v->on.j->report, out); }
void print_numbers(const struct ir_value *v, struct str *out) { str_add(out, "largest error of a result, relative: %.3g\n", v->on.x->rel); }

static void print_time(const char *who, const struct candidate *x, struct str *out)
{
  str_add(out, "%-24s", who);
  if (x->measured)
    str_add(out, " %12.3f us", 1e6 * x->timing.median);
  else
    str_add(out, " %12s   ", "");
  str_add(out, x->cost > 0 ? " %12.3f us modelled" : "", 1e6 * x->cost);
  str_add(out, "%s", x->proven ? "  proven" : "");
  str_add(out, x->dropped ? "  dropped: %.*s" : "", (int)strcspn(x->dropped ? x->dropped : "", "\n"), x->dropped);
  str_add(out, "\n");
}

void print_times(const struct ir_value *v, struct str *out)
{
  const struct contest *c = v->on.c;
  for (int i = 0; i < c->ncand; i++) {
    char who[64];
    snprintf(who, sizeof who, i ? "%scandidate %d" : "%soperator by operator", i == c->best ? "best: " : "", i);
    print_time(who, &c->cand[i], out);
  }
}

void print_whole(const struct ir_value *v, struct str *out)
{
  print_time("operator by operator", &v->on.j->base, out);
  print_time("best", &v->on.j->best, out);
}
