// The report as text, made from the JSON document: what was found, whether it is equal, its speed, and reasons.
#include "base/visible.h"
#include "drive/drive.h"
#include "report/report.h"

#include <string.h>

static double num(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

// 62-bit primes do not fit a double.
static long long whole_number(const json_t *o, const char *key) { return (long long)json_integer_value(json_object_get(o, key)); }

static const char *txt(const json_t *o, const char *key)
{
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

static bool yes(const json_t *o, const char *key) { return json_is_true(json_object_get(o, key)); }

// "1.23 ms": three digits in the unit that fits.
const char *report_duration(char out[32], double us)
{
  const char *unit = us < 1e3 ? "us" : us < 1e6 ? "ms" : "s";
  double x = us < 1e3 ? us : us < 1e6 ? us / 1e3 : us / 1e6;
  snprintf(out, 32, "%.*f %s", x < 10 ? 2 : x < 100 ? 1 : 0, x, unit);
  return out;
}

// 12,345
const char *report_grouped(char out[32], double x)
{
  char digits[32];
  int n = snprintf(digits, sizeof digits, "%.0f", x), k = 0;
  for (int i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) out[k++] = ',';
    out[k++] = digits[i];
  }
  out[k] = 0;
  return out;
}

static const char *plural(double n) { return n == 1 ? "" : "s"; }

static struct graph *graph_of(struct arena *mem, const json_t *v)
{
  struct graph *g = NULL;
  struct err e = {0};
  struct str text = {0};
  json_text(v, &text);
  if (graph_from_json(mem, str_text(&text), text.n, "report", &g, &e) != OK) g = NULL;
  str_free(&text);
  return g;
}

static void signature(const struct graph *g, bool cpu, struct str *out)
{
  char shape[128];
  int n = graph_inputs(g, NULL), *t = NEWS(g->mem, int, n + 1);
  graph_inputs(g, t);
  for (int i = 0; i < n; i++) {
    const struct tensor *x = &g->tensors[t[i]];
    const struct shape whole = graph_whole(g, t[i]);
    shape_text(shape, &whole);
    str_add(out, "%s%s %s%s", i ? ", " : "", x->name ? x->name : "?", dtype_name(x->dtype), shape);
  }
  str_add(out, " ->");
  for (int i = 0, k = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_OUTPUT) continue;
    const struct shape whole = output_whole(g, &g->nodes[i]);
    shape_text(shape, &whole);
    str_add(out, "%s %s%s", k++ ? "," : "", dtype_name(g->tensors[g->nodes[i].in[0]].dtype), shape);
  }
  if (g->world > 1) str_add(out, "; %d devices%s", g->world, cpu ? ", one after the other" : "");
}

static void time_line(const char *what, const json_t *t, double share, const char *of, const char *more, struct str *out)
{
  char us[32];
  double kernels = num(t, "kernels");
  str_add(out, "  %-10s %9s   %3.0f kernel%s%s", what, report_duration(us, num(t, "us")), kernels, plural(kernels), kernels == 1 ? " " : "");
  if (share > 0) str_add(out, "   %3.0f%% of the %s", 100 * share, of);
  str_add(out, "%s\n", more);
}

static void modelled(const char *what, const json_t *t, struct str *out)
{
  char us[32];
  double kernels = num(t, "kernels");
  if (json_object_get(t, "dropped"))
    str_add(out, "  %-10s no kernels: %s\n", what, txt(t, "dropped"));
  else if (!json_object_get(t, "model_us"))
    str_add(out, "  %-10s not measured   %3.0f kernel%s\n", what, kernels, plural(kernels));
  else
    str_add(out, "  %-10s %9s   %3.0f kernel%s   by the model\n", what, report_duration(us, num(t, "model_us")), kernels, plural(kernels));
}

static void not_measured(const json_t *r, struct str *out)
{
  const json_t *best = json_object_get(r, "best");
  modelled("op-by-op", json_object_get(r, "baseline"), out);
  if (yes(best, "op_by_op"))
    str_add(out, "  optimized  stays op-by-op: %s\n", txt(best, "reason"));
  else
    modelled("optimized", best, out);
  if (json_object_get(r, "gpu")) str_add(out, "  not measured: %s\n", txt(json_object_get(r, "gpu"), "unmeasured"));
}

static void times(const json_t *r, struct str *out)
{
  if (json_is_null(json_object_get(json_object_get(r, "best"), "us"))) {
    not_measured(r, out);
    return;
  }
  const json_t *share = json_object_get(r, "share"), *best = json_object_get(r, "best");
  bool both = !json_is_null(json_object_get(json_object_get(r, "baseline"), "us"));
  char faster[64] = "";
  if (both) snprintf(faster, sizeof faster, "   %.2f times as fast as op-by-op", num(r, "speedup"));
  if (both)
    time_line("op-by-op", json_object_get(r, "baseline"), num(share, "baseline"), txt(share, "of"), "", out);
  else
    modelled("op-by-op", json_object_get(r, "baseline"), out);
  if (yes(best, "op_by_op"))
    str_add(out, "  optimized  stays op-by-op: %s\n", txt(best, "reason"));
  else
    time_line("optimized", best, num(share, "best"), txt(share, "of"), faster, out);
  if (*txt(r, "disturbed")) str_add(out, "  disturbed  %s: times and choice are uncertain; a later run measures again\n", txt(r, "disturbed"));
}

// The references of a race that the GPU computed, and how they were checked.
static const char *reference_words(char out[128], const json_t *r)
{
  const json_t *x = json_object_get(r, "reference");
  *out = 0;
  const long long on_gpu = whole_number(x, "on_gpu"), all = on_gpu + whole_number(x, "on_cpu");
  if (on_gpu > 0) snprintf(out, 128, ", %lld of %lld references on the GPU; the CPU checked %lld elements", on_gpu, all, whole_number(x, "checked"));
  return out;
}

static void proof(const json_t *r, struct str *out)
{
  const json_t *c = json_object_get(r, "certificate");
  char checked[128];
  if (yes(json_object_get(r, "best"), "op_by_op")) {
    str_add(out, "  proof      the program as written, nothing to prove\n");
  } else {
    double delta = num(c, "delta"), tests = num(c, "tests");
    const char *scope = txt(c, "scope");
    bool proved = !strcmp(scope, "proved");
    if (proved)
      str_add(out, "  proof      proved equal by normal forms at full size, for all inputs on which both are defined\n");
    else if (!strcmp(scope, "full"))
      str_add(out, "  proof      equal in every test at full size\n");
    else
      str_add(out, "  proof      equal at the tested extents, not proved at full size\n");
    if (!proved && delta < 1)
      str_add(out, "             an unequal graph passes with probability at most %.1e\n", delta);
    else if (!proved)
      str_add(out, "             no theorem bounds the probability that an unequal graph passes\n");
    if (!proved)
      str_add(out, "             %.0f test%s over fields, seed %.0f; the first over Z_%lld, exponents over Z_%lld\n", tests, plural(tests),
              num(c, "seed"), whole_number(c, "p"), whole_number(c, "q"));
    if (*txt(c, "extents")) str_add(out, "             at %s\n", txt(c, "extents"));
    if (*txt(c, "note")) str_add(out, "             %s\n", txt(c, "note"));
    if (*txt(c, "proof")) str_add(out, "             no proof by normal forms: %s\n", txt(c, "proof"));
  }
  if (!json_is_null(json_object_get(r, "max_rel_err")))
    str_add(out, "  numbers    relative error %.1e against float64%s\n", num(r, "max_rel_err"), reference_words(checked, r));
}

static void drawing(struct arena *mem, const json_t *r, struct str *out)
{
  const struct graph *g = graph_of(mem, json_object_get(r, "graph"));
  if (!g) return;
  const char *schedule = txt(json_object_get(r, "best"), "schedule");
  str_add(out, "\nfound%s%s\n", *schedule ? ": " : "", schedule);
  struct str text = {0};
  graph_draw(g, &text);
  for (const char *p = str_text(&text), *end; *p; p = end) {
    end = strchr(p, '\n');
    end = end ? end + 1 : p + strlen(p);
    str_add(out, "  %.*s", (int)(end - p), p);
  }
  str_free(&text);
}

static void part_line(const json_t *p, int i, struct str *out)
{
  char a[32], b[32];
  double n = num(p, "operators");
  str_add(out, "  %2d  %2.0f operator%s", i + 1, n, n == 1 ? " " : "s");
  if (json_object_get(p, "same_as"))
    str_add(out, ", the same as %.0f", num(p, "same_as"));
  else if (json_object_get(p, "best_us"))
    str_add(out, ", %s -> %s, %s", report_duration(a, num(p, "baseline_us")), report_duration(b, num(p, "best_us")), txt(p, "schedule"));
  else
    str_add(out, yes(p, "searchable") ? ", nothing better found" : ", not searched");
  if (*txt(p, "why")) str_add(out, "\n      cut here: %s", txt(p, "why"));
  str_add(out, "\n");
}

static void subprograms(const json_t *r, struct str *out)
{
  const json_t *parts = json_object_get(r, "parts");
  size_t n = json_array_size(parts);
  if (n < 2) return;
  str_add(out, "\nsubprograms\n");
  for (size_t i = 0; i < n; i++) part_line(json_array_get(parts, i), (int)i, out);
}

static void dropped(const json_t *r, struct str *out)
{
  const json_t *parts = json_object_get(r, "parts");
  int n = 0;
  const char *first = "", *again = "";
  for (size_t i = 0; i < json_array_size(parts); i++) {
    size_t k;
    json_t *c;
    json_array_foreach(json_object_get(json_array_get(parts, i), "candidates"), k, c) if (*txt(c, "dropped") && !json_object_get(c, "us") && !n++)
        first = txt(c, "dropped"),
        again = txt(c, "again");
  }
  if (n) str_add(out, "  dropped    %d candidate%s; the first: %.*s\n", n, plural(n), (int)strcspn(first, "\n"), first);
  if (*again) str_add(out, "  again      %s\n", again);
}

// Subprograms with known kernels, which were not searched.
static void plans(const json_t *r, struct str *out)
{
  const json_t *parts = json_object_get(r, "parts");
  int n = 0;
  const char *first = "";
  for (size_t i = 0; i < json_array_size(parts); i++) {
    const char *from = txt(json_array_get(parts, i), "plan");
    if (*from && !n++) first = from;
  }
  if (n) str_add(out, "\nplan         of %s", first);
  if (n > 1) str_add(out, ", and of %d subprograms more", n - 1);
}

static void search(const json_t *r, struct str *out)
{
  static const struct {
    const char *key, *label;
  } counts[] = {{"states", "operators tried"}, {"values", "values"}, {"schedules", "schedules"}, {"graphs", "graphs"}, {"verified", "verified"}};
  const json_t *s = json_object_get(r, "search");
  char text[32];
  const char *key;
  json_t *count;
  plans(r, out);
  str_add(out, "\nsearch       %.2f s%s", num(s, "seconds"), yes(s, "complete") ? "" : ", not the whole space");
  for (size_t i = 0; i < COUNT(counts); i++) str_add(out, ", %s %s", report_grouped(text, num(s, counts[i].key)), counts[i].label);
  str_add(out, "\n  pruned    ");
  json_object_foreach(json_object_get(s, "pruned"), key, count) if (json_integer_value(count))
      str_add(out, " %s %s", key, report_grouped(text, json_number_value(count)));
  str_add(out, "\n");
  dropped(r, out);
}

// The number of ranks, and their collectives.
static void ranks(const json_t *r, struct str *out)
{
  const json_t *v = json_object_get(r, "ranks");
  const double n = num(v, "meetings"), written = num(v, "meetings_written");
  char us[32];
  if (!v) return;
  str_add(out, "  ranks      %.0f, which meet %.0f time%s: %s by the model", num(v, "world"), n, plural(n), report_duration(us, num(v, "model_us")));
  if (*txt(v, "laws"))
    str_add(out, "; as written %.0f time%s, %s\n             moved by %s\n", written, plural(written),
            report_duration(us, num(v, "model_us_written")), txt(v, "laws"));
  else
    str_add(out, ", as written\n");
}

// Kernels for a GPU: their choices, the compiler's figures, and checks without a GPU.
static void gpu(const json_t *r, struct str *out)
{
  const json_t *g = json_object_get(r, "gpu"), *p = json_object_get(g, "interpreter"), *l;
  size_t i;
  if (!g) return;
  if (!*txt(g, "unmeasured") && num(g, "runs_on") != num(g, "arch"))
    str_add(out, "  measured   on another GPU, compiled for its compute capability %.1f; the files are for %s\n", num(g, "runs_on") / 10,
            txt(r, "target"));
  str_add(out, "  kernels    %s", txt(g, "compiled"));
  str_add(out, "; %.0f of %.0f run in the interpreter%s: %.0f blocks, no error, %.2g of the accepted error\n", num(p, "run"), num(p, "kernels"),
          num(p, "full") == num(p, "run") ? "" : " with few blocks", num(p, "blocks"), num(p, "error"));
  if (*txt(p, "note")) str_add(out, "             %s\n", txt(p, "note"));
  json_array_foreach(json_object_get(g, "launches"), i, l)
  {
    str_add(out, "             %s: %s, %.2f us by the model", txt(l, "name"), txt(l, "how"), num(l, "model_us"));
    if (json_object_get(l, "algorithm")) str_add(out, ", algorithm %.0f of the library", num(l, "algorithm"));
    if (json_object_get(l, "registers")) str_add(out, ", %.0f registers", num(l, "registers"));
    if (num(l, "spilled") > 0) str_add(out, ", %.0f bytes spilled", num(l, "spilled"));
    if (json_object_get(l, "shared")) str_add(out, ", %.0f bytes of shared memory", num(l, "shared"));
    str_add(out, "\n");
  }
}

static void write_all(struct arena *mem, const json_t *r, const char *folder, struct str *out)
{
  const struct graph *program = graph_of(mem, json_object_get(r, "source"));
  double threads = num(r, "threads");
  str_add(out, "%s on %s: %s, %.0f thread%s%s\n", txt(r, "program"), txt(r, "target"), txt(r, "device"), threads, plural(threads),
          yes(r, "stopped") ? " (stopped early)" : "");
  if (program) {
    str_add(out, "  ");
    signature(program, !strcmp(txt(r, "target"), "cpu"), out);
    str_add(out, "\n");
  }
  str_add(out, "\n");
  times(r, out);
  proof(r, out);
  ranks(r, out);
  gpu(r, out);
  drawing(mem, r, out);
  subprograms(r, out);
  search(r, out);
  if (*txt(r, "left")) str_add(out, "  not done   %s\n", txt(r, "left"));
  if (*txt(r, "warning")) str_add(out, "\nwarning: %s\n", txt(r, "warning"));
  if (folder)
    str_add(out, "\nfiles in %s: program.mica, graph.mica, graph.json, %s, kernel.h, report.txt, report.json, report.html\n", folder,
            json_object_get(r, "gpu") ? "kernel.cu, README.md, *.tile" : "kernel.c");
}

void report_text(struct arena *mem, const json_t *r, const char *folder, struct str *out)
{
  struct str text = {0};
  write_all(mem, r, folder, &text);
  visible_add(out, str_text(&text), text.n);
  str_free(&text);
}
