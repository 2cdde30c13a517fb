// Sections of text: the summary, the certificate, the checks of numbers, and how to reproduce the result.
#include "report/html.h"

#include <math.h>
#include <string.h>

static void row_open(struct html *h, const char *what) { html_add(h, "<tr><th scope=\"row\">%s</th><td>", what); }
static void row_close(struct html *h) { html_raw(h, "</td></tr>\n"); }

static void row(struct html *h, const char *what, const char *text)
{
  if (!*text) return;
  row_open(h, what);
  html_add(h, "%s", text);
  row_close(h);
}

static const char *whole_number(const struct html *h, const json_t *o, const char *key)
{
  const json_t *v = json_object_get(o, key); // 62-bit primes do not fit a double
  return json_is_integer(v) ? arena_printf(h->mem, "%lld", (long long)json_integer_value(v)) : "";
}

// ---- summary ----

static bool op_by_op(const struct html *h) { return html_yes(json_object_get(h->r, "best"), "op_by_op"); }

static const char *key_of_time(const json_t *t) { return html_has(t, "us") ? "us" : "model_us"; }

static void spread(struct html *h, const json_t *t)
{
  html_add(h, "<td>%s to %s in %s runs, least %s", html_time(h, html_num(t, "p25")), html_time(h, html_num(t, "p75")),
           html_count(h, html_num(t, "runs")), html_time(h, html_num(t, "least")));
  if (*html_txt(t, "disturbed")) html_add(h, ", <strong>disturbed</strong>: %s", html_txt(t, "disturbed"));
  html_raw(h, "</td></tr>\n");
}

static void time_bar(struct html *h, const char *name, const json_t *t, double most)
{
  double us = html_num(t, key_of_time(t)), a = html_num(t, "p25"), b = html_num(t, "p75");
  html_add(h, "<tr><th scope=\"row\">%s</th><td class=\"num\">%s</td><td class=\"barcell\">", name, html_time(h, us));
  html_bar(h, most > 0 ? us / most : 0, !html_has(t, "us"));
  if (a > 0 && b > a && b <= most)
    html_add(h, "<span class=\"range\" style=\"left:%.1f%%;width:%.1f%%\"></span>", 100 * a / most, 100 * (b - a) / most);
  html_bar_end(h);
  html_add(h, "</td><td class=\"num\">%s</td>", html_count(h, html_num(t, "kernels")));
  if (html_has(t, "us"))
    spread(h, t);
  else
    html_add(h, "<td>%s</td></tr>\n", *html_txt(t, "dropped") ? html_txt(t, "dropped") : html_has(t, "model_us") ? "by the model" : "not measured");
}

static void headline(struct html *h)
{
  const json_t *best = json_object_get(h->r, "best"), *base = json_object_get(h->r, "baseline");
  double speedup = html_num(h->r, "speedup"), a = html_num(base, key_of_time(base)), b = html_num(best, key_of_time(best));
  if (op_by_op(h))
    html_raw(h, "<p class=\"big\">Stays <strong>op-by-op</strong></p>\n");
  else if (speedup > 0)
    html_add(h, "<p class=\"big\"><strong>%.2f&times;</strong> as fast as op-by-op</p>\n", speedup);
  else if (a > 0 && b > 0)
    html_add(h, "<p class=\"big\"><strong>%.2f&times;</strong> as fast as op-by-op, by the model</p>\n", a / b);
  else
    html_add(h, "<p class=\"big\">%s</p>\n", html_time(h, b));
}

static bool has_scope(const json_t *c, const char *scope) { return !strcmp(html_txt(c, "scope"), scope); }

static const char *proof_short(const struct html *h)
{
  const json_t *c = json_object_get(h->r, "certificate");
  if (op_by_op(h)) return "nothing to prove: the program as written";
  if (!html_yes(c, "equal")) return "no certificate";
  if (has_scope(c, "proved")) return "equality proved by normal forms, at full size";
  if (has_scope(c, "reduced")) return "equal at the tested extents, not proved at full size";
  if (html_num(c, "delta") < 1)
    return arena_printf(h->mem, "equal in every test at full size; an unequal graph passes with probability at most %.1e", html_num(c, "delta"));
  return "equal in every test at full size";
}

static void badges(struct html *h)
{
  html_add(h, "<ul class=\"badges\"><li>%s</li>", proof_short(h));
  if (html_has(h->r, "max_rel_err")) html_add(h, "<li>relative error %.1e against float64</li>", html_num(h->r, "max_rel_err"));
  const json_t *share = json_object_get(h->r, "share");
  if (html_num(share, "best") > 0) html_add(h, "<li>%.0f%% of the %s</li>", 100 * html_num(share, "best"), html_txt(share, "of"));
  html_add(h, "<li>%s on %s</li></ul>\n", html_txt(h->r, "target"), html_txt(h->r, "device"));
}

static void notices(struct html *h)
{
  const json_t *gpu = json_object_get(h->r, "gpu");
  if (html_yes(h->r, "stopped"))
    html_raw(h, "<p class=\"notice\">The run was stopped or reached its time limit; this is the best result until then.</p>\n");
  if (*html_txt(h->r, "left")) html_add(h, "<p class=\"notice\">Not done: %s</p>\n", html_txt(h->r, "left"));
  if (*html_txt(h->r, "disturbed"))
    html_add(h, "<p class=\"notice\">Disturbed: %s. Times and choice are uncertain; a later run measures again.</p>\n", html_txt(h->r, "disturbed"));
  if (*html_txt(gpu, "unmeasured")) html_add(h, "<p class=\"notice\">Not measured: %s. A cost model ranks.</p>\n", html_txt(gpu, "unmeasured"));
  if (*html_txt(h->r, "warning")) html_add(h, "<p class=\"notice\">Warning: %s</p>\n", html_txt(h->r, "warning"));
}

void html_summary(struct html *h)
{
  const json_t *best = json_object_get(h->r, "best"), *base = json_object_get(h->r, "baseline");
  double most = MAX(MAX(html_num(best, key_of_time(best)), html_num(base, key_of_time(base))), MAX(html_num(base, "p75"), html_num(best, "p75")));
  html_section(h, "result", "Result");
  headline(h);
  badges(h);
  notices(h);
  html_raw(h, "<div class=\"scroll\"><table class=\"bars\"><thead><tr><th scope=\"col\"></th><th scope=\"col\" class=\"num\">Median</th><th "
              "scope=\"col\">Time</th><th scope=\"col\" class=\"num\">Kernels</th><th scope=\"col\">Spread</th></tr></thead><tbody>\n");
  time_bar(h, "op-by-op", base, most);
  time_bar(h, "optimized", best, most);
  html_raw(h, "</tbody></table></div>\n");
  html_section_end(h);
}

// ---- the certificate ----

static void tests(struct html *h, const json_t *c)
{
  row_open(h, "Random tests");
  html_add(h, "%s over fields, seed %s; the first over the integers modulo %s, exponents modulo %s", html_count(h, html_num(c, "tests")),
           whole_number(h, c, "seed"), whole_number(h, c, "p"), whole_number(h, c, "q"));
  row_close(h);
  row_open(h, "Bound");
  if (html_num(c, "delta") < 1)
    html_add(h, "an unequal graph passes with probability at most %.3g, for %d exponentials and degree %d (docs/theory.md)", html_num(c, "delta"),
             html_int(c, "k"), html_int(c, "degree"));
  else
    html_raw(h, "no theorem bounds the probability that an unequal graph passes here");
  row_close(h);
  if (*html_txt(c, "extents")) row(h, "Tested at", html_txt(c, "extents"));
}

void html_certificate(struct html *h)
{
  const json_t *c = json_object_get(h->r, "certificate");
  html_section(h, "certificate", "Certificate");
  if (op_by_op(h) || !c) {
    html_add(h, "<p>%s</p>\n", c ? "The result is the program as written; there is nothing to prove." : "The report has no certificate.");
    html_section_end(h);
    return;
  }
  html_raw(h, "<p>Is what was found equal to the program, for all inputs? ");
  const char *colon = *html_txt(c, "proof") ? ": " : "";
  if (has_scope(c, "proved"))
    html_raw(h, "<strong>Yes, proved</strong>: both have the same normal form, at full size, for all inputs on which both are defined.");
  else if (has_scope(c, "full"))
    html_add(h, "<strong>Yes, by tests at full size</strong>: it passed every one. Normal forms did not decide it%s%s.", colon, html_txt(c, "proof"));
  else if (html_yes(c, "equal"))
    html_add(
        h,
        "<strong>At the tested extents</strong>: it passed every test there. It was not tested at full size, and normal forms did not decide it%s%s.",
        colon, html_txt(c, "proof"));
  else
    html_raw(h, "<strong>No</strong>.");
  html_raw(h, " Equality is that of arithmetic without rounding; how far rounding takes the numbers apart is held against float64 below.</p>\n");
  html_raw(h, "<div class=\"scroll\"><table class=\"words\"><tbody>\n");
  if (!has_scope(c, "proved")) tests(h, c);
  row(h, "Note", html_txt(c, "note"));
  html_raw(h, "</tbody></table></div>\n");
  html_section_end(h);
}

// ---- numbers and errors ----

static void interpreter(struct html *h, const json_t *p)
{
  row_open(h, "Interpreter");
  html_add(h,
           "%s of %s kernels run without a GPU, %s of them at full size: %s blocks, %s operations on elements, no error; the largest difference is "
           "%.2g of what is accepted",
           html_count(h, html_num(p, "run")), html_count(h, html_num(p, "kernels")), html_count(h, html_num(p, "full")),
           html_count(h, html_num(p, "blocks")), html_count(h, html_num(p, "elements")), html_num(p, "error"));
  if (*html_txt(p, "note")) html_add(h, "; %s", html_txt(p, "note"));
  row_close(h);
}

static int failures(struct html *h)
{
  const json_t *parts = json_object_get(h->r, "parts"), *p, *c;
  size_t i, k;
  int n = 0;
  json_array_foreach(parts, i, p) json_array_foreach(json_object_get(p, "candidates"), k, c) n += *html_txt(c, "dropped") && !html_has(c, "us");
  return n;
}

void html_checks(struct html *h)
{
  const json_t *gpu = json_object_get(h->r, "gpu"), *best = json_object_get(h->r, "best");
  html_section(h, "checks", "Numbers and errors");
  html_raw(h, "<div class=\"scroll\"><table class=\"words\"><tbody>\n");
  if (html_has(h->r, "max_rel_err")) {
    row_open(h, "Against float64");
    html_add(h, "relative error %.2e in the norm, the largest of all outputs, on random inputs", html_num(h->r, "max_rel_err"));
    row_close(h);
  } else
    row(h, "Against float64", "not run on the device");
  row(h, "Exponentials", html_txt(best, "note"));
  if (gpu) interpreter(h, json_object_get(gpu, "interpreter"));
  if (gpu) row(h, "Compiled", html_txt(gpu, "compiled"));
  int n = failures(h);
  row(h, "Candidates without a time", arena_printf(h->mem, "%d; the table of candidates has the reason of each", n));
  row(h, "Memory between kernels", html_unit(h, html_num(best, "workspace"), "B"));
  if (html_num(best, "scratch") > 0) row(h, "Scratch of a thread", html_unit(h, html_num(best, "scratch"), "B"));
  html_raw(h, "</tbody></table></div>\n");
  html_section_end(h);
}

// ---- reproduction ----

struct flag {
  const char *key, *option;
};

static const char *command(struct html *h)
{
  static const struct flag flags[] = {{"max_block_ops", "max-block-ops"},
                                      {"max_kernel_ops", "max-kernel-ops"},
                                      {"max_part_ops", "max-part-ops"},
                                      {"max_values", "max-values"},
                                      {"measure", "measure"},
                                      {"tune", "tune"},
                                      {"time", "time"},
                                      {"seed", "seed"}};
  const json_t *o = json_object_get(h->r, "options");
  const char *s =
      arena_printf(h->mem, "mica optimize program.mica --target %s --threads %d --fresh", html_txt(h->r, "target"), html_int(h->r, "threads"));
  struct mica_options std = job_defaults();
  const double usual[] = {std.max_block_ops, std.max_kernel_ops, std.max_part_ops, std.max_values, std.measure, std.tune, std.time, (double)std.seed};
  for (size_t i = 0; i < COUNT(flags); i++)
    if (html_has(o, flags[i].key) && html_num(o, flags[i].key) != usual[i])
      s = arena_printf(h->mem, "%s --%s %.0f", s, flags[i].option, html_num(o, flags[i].key));
  enum f32_products by;
  if (f32_products_read(html_txt(o, "f32_products"), &by, &(struct err){0}) == OK && by != F32_BF16X6)
    s = arena_printf(h->mem, "%s --f32-products %s", s, f32_products_name(by));
  return *html_txt(o, "off") ? arena_printf(h->mem, "%s --off %s", s, html_txt(o, "off")) : s;
}

void html_again(struct html *h)
{
  html_section(h, "again", "Reproduce");
  html_raw(h, "<p>The program as it was optimized is <code>program.mica</code> in the folder of <code>--out</code>, and above. Searches are "
              "deterministic; times are those of a machine.</p>\n");
  const char *s = command(h);
  html_listing(h, "command", s, strlen(s), -1, NULL);
  html_raw(h, "<div class=\"scroll\"><table class=\"words\"><tbody>\n");
  row(h, "Mica", html_txt(h->r, "mica"));
  row(h, "Target", html_txt(h->r, "target"));
  row(h, "Device", html_txt(h->r, "device"));
  row(h, "Threads", html_count(h, html_num(h->r, "threads")));
  row(h, "Compiler", html_txt(h->r, "compiler"));
  row(h, "Kernels compiled by", html_txt(json_object_get(h->r, "gpu"), "compiled"));
  html_raw(h, "</tbody></table></div>\n");
  html_section_end(h);
}
