// Counters of the search and results of its candidates. Bars are logarithmic, because counters differ by orders of magnitude; a number stands beside
// each bar.
#include "report/html.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 160 }; // characters of a reason that are shown without opening it

// ---- counters ----

struct counter {
  const char *name, *what;
  double n;
};

static void bar_row(struct html *h, const struct counter *c, double most)
{
  double share = most > 0 && c->n > 0 ? log1p(c->n) / log1p(most) : 0;
  html_add(h, "<tr><th scope=\"row\">%s</th><td class=\"num\">%s</td><td class=\"barcell\">", c->name, html_count(h, c->n));
  html_bar(h, share, false), html_bar_end(h);
  html_add(h, "</td><td>%s</td></tr>\n", c->what);
}

static void bars(struct html *h, const char *caption, const char *head, int n, const struct counter *c)
{
  double most = 0;
  for (int i = 0; i < n; i++) most = MAX(most, c[i].n);
  html_add(h,
           "<div class=\"scroll\"><table class=\"bars\"><caption>%s</caption><thead><tr><th scope=\"col\">%s</th><th scope=\"col\" "
           "class=\"num\">Count</th>"
           "<th scope=\"col\">Logarithmic</th><th scope=\"col\">What</th></tr></thead><tbody>\n",
           caption, head);
  for (int i = 0; i < n; i++) bar_row(h, &c[i], most);
  html_raw(h, "</tbody></table></div>\n");
}

struct html_search_tally {
  int tried, measured, proven, dropped;
};

static struct html_search_tally tally_of(const json_t *parts)
{
  struct html_search_tally t = {0};
  size_t i, k;
  const json_t *p, *c;
  json_array_foreach(parts, i, p) json_array_foreach(json_object_get(p, "candidates"), k, c)
  {
    t.tried++, t.measured += html_has(c, "us"), t.proven += html_yes(c, "proven"), t.dropped += *html_txt(c, "dropped") != 0;
  }
  return t;
}

static const char *rule_doc(const char *name)
{
  for (int i = 0; i < PRUNES; i++)
    if (!strcmp(prune_rows[i].name, name)) return prune_rows[i].doc;
  return "";
}

void html_counters(struct html *h)
{
  const json_t *s = json_object_get(h->r, "search"), *count;
  struct html_search_tally t = tally_of(json_object_get(h->r, "parts"));
  const struct counter way[] = {{"Operators tried", "states of the search", html_num(s, "states")},
                                {"Values kept", "distinct", html_num(s, "values")},
                                {"Schedules", "assignments of axes", html_num(s, "schedules")},
                                {"Graphs", "structures, before sizes", html_num(s, "graphs")},
                                {"Verified", "passed a random test over a finite field", html_num(s, "verified")},
                                {"Candidates", "made complete, with other sizes of the fastest", t.tried},
                                {"Measured", "compiled and timed", t.measured},
                                {"Proven", "with a certificate", t.proven}};
  struct counter *rule = NEWS(h->mem, struct counter, json_object_size(json_object_get(s, "pruned")) + 1);
  const char *key;
  int n = 0;
  html_section(h, "search", "Search");
  html_add(h, "<p>%.2f s", html_num(s, "seconds"));
  if (html_has(s, "first_seconds"))
    html_add(h, "; after %.2f s there was a verified graph that the model likes better than op-by-op", html_num(s, "first_seconds"));
  html_add(h, ". %s</p>\n", html_yes(s, "complete") ? "The space was searched to its end." : "Not the whole space was searched.");
  bars(h, "From operators to proven candidates", "Stage", (int)COUNT(way), way);
  json_object_foreach((json_t *)json_object_get(s, "pruned"), key, count) rule[n++] = (struct counter){key, rule_doc(key), json_number_value(count)};
  bars(h, "States removed by each pruning rule", "Rule", n, rule);
  html_section_end(h);
}

// ---- candidates ----

struct entry {
  const json_t *c;
  size_t part, number;
};

static bool same_schedule(const json_t *p, const json_t *c)
{
  return html_yes(c, "proven") && !strcmp(html_txt(p, "schedule"), html_txt(c, "schedule"));
}

// The winner of the part: its schedule, and its time if it has one. Another row may have a shorter time from an earlier round.
static bool won(const json_t *p, const json_t *c)
{
  bool times = html_has(p, "best_us") && html_has(c, "us");
  return json_object_get(p, "certificate") && same_schedule(p, c) && (!times || html_num(p, "best_us") == html_num(c, "us"));
}

static const char *verdict(const json_t *p, const json_t *c)
{
  if (won(p, c)) return "winner";
  if (*html_txt(c, "dropped")) return "dropped";
  if (html_yes(c, "proven")) return "proven";
  if (html_has(c, "us")) return "measured";
  return html_has(c, "model_us") ? "modelled" : "not tried";
}

static void reason(struct html *h, const char *why)
{
  size_t n = strlen(why), k = MIN(n, LONGEST);
  while (k < n && (why[k] & 0xc0) == 0x80) k++;
  if (n <= LONGEST)
    html_add(h, "%s", why);
  else
    html_add(h, "<details><summary>%s&hellip;</summary>%s</details>", arena_printf(h->mem, "%.*s", (int)k, why), why + k);
}

static void time_cell(struct html *h, const json_t *c, const char *key)
{
  if (html_has(c, key))
    html_add(h, "<td class=\"num\" data-v=\"%.6g\">%s</td>", html_num(c, key), html_time(h, html_num(c, key)));
  else
    html_raw(h, "<td class=\"num\" data-v=\"\">&ndash;</td>");
}

static void entry_row(struct html *h, const json_t *p, const struct entry *x, double base, double most)
{
  const json_t *c = x->c;
  const char *v = verdict(p, c);
  double us = html_has(c, "us") ? html_num(c, "us") : html_num(c, "model_us");
  html_add(h, "<tr class=\"v-%s\"><td class=\"num\" data-v=\"%d\">%d</td>", strchr(v, ' ') ? "none" : v, (int)x->number, (int)x->number);
  html_add(h, "<td><strong class=\"verdict\">%s</strong>", v);
  if (html_yes(c, "tuned")) html_raw(h, " <small>other sizes</small>");
  if (*html_txt(c, "disturbed")) html_add(h, " <small>disturbed: %s</small>", html_txt(c, "disturbed"));
  html_raw(h, "</td>");
  time_cell(h, c, "us");
  html_raw(h, "<td class=\"barcell\">");
  html_bar(h, most > 0 ? us / most : 0, !html_has(c, "us"));
  if (base > 0 && base <= most) html_add(h, "<span class=\"mark\" style=\"left:%.1f%%\" title=\"op-by-op\"></span>", 100 * base / most);
  html_bar_end(h);
  html_raw(h, "</td>");
  time_cell(h, c, "model_us");
  html_add(h, "<td class=\"num\" data-v=\"%d\">%d</td><td><code>", html_int(c, "kernels"), html_int(c, "kernels"));
  html_items(h, html_txt(c, "schedule"));
  html_raw(h, "</code></td>");
  if (html_has(c, "max_rel_err"))
    html_add(h, "<td class=\"num\" data-v=\"%.3g\">%.1e</td><td>", html_num(c, "max_rel_err"), html_num(c, "max_rel_err"));
  else
    html_raw(h, "<td class=\"num\" data-v=\"\">&ndash;</td><td>");
  reason(h, html_txt(c, "dropped"));
  html_raw(h, "</td></tr>\n");
}

static void part_table(struct html *h, const json_t *p, int number, int parts)
{
  static const char *const heads[] = {"#", "Verdict", "Measured", "Time", "Model", "Kernels", "Schedule", "Error", "Why it was dropped"};
  const json_t *list = json_object_get(p, "candidates"), *c;
  size_t i;
  double most = html_num(p, "baseline_us"), base = most;
  json_array_foreach(list, i, c) most = MAX(most, html_has(c, "us") ? html_num(c, "us") : html_num(c, "model_us"));
  if (base > 0) most = MIN(most, 2 * base); // much slower ones end at the edge
  html_add(h, "<div class=\"scroll\"><table class=\"sortable\"><caption>Subprogram %d of %d: %d candidate%s. Bars: time", number, parts,
           (int)json_array_size(list), json_array_size(list) == 1 ? "" : "s");
  html_add(h, "%s; hatched: modelled.</caption><thead><tr>", base > 0 ? ", the line is op-by-op" : "");
  for (size_t k = 0; k < COUNT(heads); k++)
    html_add(h, "<th scope=\"col\" class=\"%s\">%s</th>", strchr("02457", '0' + (int)k) ? "num" : "", heads[k]);
  html_raw(h, "</tr></thead><tbody>\n");
  json_array_foreach(list, i, c) entry_row(h, p, &(struct entry){c, (size_t)number, i + 1}, base, most);
  html_raw(h, "</tbody></table></div>\n");
}

static void part(struct html *h, const json_t *p, int number, int parts)
{
  const char *why = html_txt(p, "why"), *limits = html_txt(p, "limits");
  if (parts > 1) html_add(h, "<h3>Subprogram %d: %d operators</h3>\n", number, html_int(p, "operators"));
  if (*why) html_add(h, "<p>Cut here: %s.</p>\n", why);
  if (html_has(p, "same_as")) {
    html_add(h, "<p>The same as subprogram %d.</p>\n", html_int(p, "same_as"));
    return;
  }
  if (!html_yes(p, "searchable")) html_raw(h, "<p>Not searched: it has operators without laws only.</p>\n");
  if (html_has(p, "baseline_us") && html_has(p, "best_us"))
    html_add(h, "<p>Op-by-op %s, the fastest %s.</p>\n", html_time(h, html_num(p, "baseline_us")), html_time(h, html_num(p, "best_us")));
  if (*limits) html_add(h, "<p class=\"note\">Search: %s.</p>\n", limits);
  if (json_array_size(json_object_get(p, "candidates"))) part_table(h, p, number, parts);
}

void html_candidates(struct html *h)
{
  const json_t *parts = json_object_get(h->r, "parts"), *p;
  size_t i;
  html_section(h, "candidates", "Candidates");
  html_raw(
      h, "<p class=\"hint\">Each subprogram's candidates in the order in which they were tried. Those that were measured once and lay far "
         "behind are dropped; the one that leads is proven before it may lead. The winner was the "
         "fastest when the leaders were timed beside each other; the time of another row may be less, in a round of its own. A heading sorts.</p>\n");
  json_array_foreach(parts, i, p) part(h, p, (int)i + 1, (int)json_array_size(parts));
  html_section_end(h);
}
