// The course of the climb: how the measured time fell while neighbours of the fastest were tried, over the number of variants measured, with a table
// of the changes. Lines differ in stroke and number.
#include "report/html.h"

#include <math.h>

enum { TICKS = 5, STROKES = 3, MOST_STEPS = 200 };
static const double WIDTH = 760, HEIGHT = 250, LEFT = 86, RIGHT = 24, TOP = 16, BOTTOM = 46, DISC = 10;

struct plot {
  struct html *h;
  const json_t *steps;
  int n;             // at most MOST_STEPS of them
  double x1, y0, y1; // x1: variants; y: microseconds
};

static double px(const struct plot *p, double ways) { return LEFT + DISC + (WIDTH - LEFT - RIGHT - 2 * DISC) * (p->x1 > 0 ? ways / p->x1 : 0); }
static double py(const struct plot *p, double us) { return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (us - p->y0) / (p->y1 - p->y0); }

static const json_t *step(const struct plot *p, int i) { return json_array_get(p->steps, (size_t)i); }
static double time_of(const json_t *s) { return MAX(0, MIN(html_num(s, "us"), 1e12)); }
static double ways_of(const json_t *s) { return MAX(0, MIN(html_num(s, "measured"), 1e9)); }

// 1, 2 or 5 times a power of ten, so that the range has few steps.
static double tick_of(double range)
{
  double tick = pow(10, floor(log10(range / TICKS)));
  for (int i = 0; range / tick > TICKS; i++) tick *= i % 3 == 1 ? 2.5 : 2;
  return tick;
}

static void limits(struct plot *p)
{
  double least = INFINITY, most = 0;
  for (int i = 0; i < p->n; i++)
    least = MIN(least, time_of(step(p, i))), most = MAX(most, time_of(step(p, i))), p->x1 = MAX(p->x1, ways_of(step(p, i)));
  if (!(most > 0)) least = 0, most = 1;
  double margin = MAX(0.15 * (most - least), 0.02 * most), tick = tick_of(most - least + 2 * margin);
  p->y0 = MAX(0, floor((least - margin) / tick) * tick), p->y1 = ceil((most + margin) / tick) * tick;
}

static void axes(const struct plot *p)
{
  struct html *h = p->h;
  double tick = tick_of(p->y1 - p->y0);
  for (int i = 0; p->y0 + i * tick <= p->y1 + tick / 2; i++) {
    double us = p->y0 + i * tick, y = py(p, us);
    html_add(h, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text class=\"tick\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", LEFT, y,
             WIDTH - RIGHT, LEFT - 6, y + 4, us > 0 ? html_time(h, us) : "0");
  }
  tick = p->x1 > 0 ? MAX(1, tick_of(p->x1)) : 1;
  for (int i = 0; i * tick <= p->x1; i++)
    html_add(h, "<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%.0f</text>\n", px(p, i * tick), HEIGHT - BOTTOM + 18, i * tick);
  html_add(h, "<text class=\"axis\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">ways measured</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
}

// Draws one line: constant until a step lowers it.
static void stroke(const struct plot *p, int line)
{
  double y = NAN;
  for (int i = 0; i < p->n; i++) {
    const json_t *s = step(p, i);
    if (html_int(s, "line") != line || html_yes(s, "exact")) continue;
    if (isnan(y))
      html_add(p->h, "<path class=\"course s%d\" d=\"M%.1f %.1f", (line - 1) % STROKES, px(p, ways_of(s)), py(p, time_of(s)));
    else
      html_add(p->h, "H%.1fV%.1f", px(p, ways_of(s)), py(p, time_of(s)));
    y = py(p, time_of(s));
  }
  if (!isnan(y)) html_add(p->h, "H%.1f\"/>\n", px(p, p->x1));
}

// Moves overlapping discs aside, towards the middle.
static void discs(const struct plot *p)
{
  struct html *h = p->h;
  double *x = NEWS(h->mem, double, p->n + 1), *y = NEWS(h->mem, double, p->n + 1);
  for (int i = 0; i < p->n; i++) {
    const json_t *s = step(p, i);
    x[i] = px(p, ways_of(s)), y[i] = py(p, time_of(s));
    double aside = (2 * DISC + 3) * (x[i] < WIDTH / 2 ? 1 : -1);
    for (int k = 0; k < i; k++)
      if (fabs(x[k] - x[i]) < 2 * DISC + 1 && fabs(y[k] - y[i]) < 2 * DISC + 1) x[i] = x[k] + aside, k = -1;
    html_add(h,
             "<g class=\"pt%s\"><title>%s: %s</title><circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\"/><text text-anchor=\"middle\" x=\"%.1f\" "
             "y=\"%.1f\">%d</text></g>\n",
             html_yes(s, "exact") ? " hollow" : "", html_time(h, time_of(s)), html_txt(s, "change"), x[i], y[i], DISC, x[i], y[i] + 4, i + 1);
  }
}

static void picture(const struct plot *p)
{
  struct html *h = p->h;
  int lines = 0;
  html_add(h,
           "<figure class=\"plot\"><svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"time over ways measured: "
           "the table has its points\">\n",
           WIDTH, HEIGHT, WIDTH, HEIGHT);
  axes(p);
  for (int i = 0; i < p->n; i++) lines = MIN(MAX(lines, html_int(step(p, i), "line")), p->n);
  for (int line = 1; line <= lines; line++) stroke(p, line);
  discs(p);
  html_raw(h, "</svg></figure>\n");
}

static const char *step_kind(const json_t *s)
{
  if (html_yes(s, "exact")) return "winner";
  return html_has(s, "before_us") ? "step" : "begins";
}

static void rows(const struct plot *p)
{
  struct html *h = p->h;
  html_raw(h, "<div class=\"scroll\"><table><thead><tr><th scope=\"col\" class=\"num\">Point</th><th scope=\"col\" class=\"num\">Line</th><th "
              "scope=\"col\"></th><th scope=\"col\">What was changed</th>"
              "<th scope=\"col\" class=\"num\">Before</th><th scope=\"col\" class=\"num\">After</th><th scope=\"col\" class=\"num\">Times as "
              "fast</th><th scope=\"col\" class=\"num\">Ways measured</th></tr></thead><tbody>\n");
  for (int i = 0; i < p->n; i++) {
    const json_t *s = step(p, i);
    double before = html_num(s, "before_us"), after = time_of(s);
    html_add(h, "<tr><td class=\"num\">%d</td><td class=\"num\">%s</td><td>%s</td><td><code>", i + 1,
             html_int(s, "line") > 0 ? html_count(h, html_int(s, "line")) : "\xe2\x80\x93", step_kind(s));
    html_items(h, html_txt(s, "change"));
    html_add(h, "</code></td><td class=\"num\">%s</td><td class=\"num\">%s</td><td class=\"num\">%s</td><td class=\"num\">%s</td></tr>\n",
             html_time(h, before), html_time(h, after), before > 0 && after > 0 ? arena_printf(h->mem, "%.3f", before / after) : "\xe2\x80\x93",
             html_count(h, ways_of(s)));
  }
  html_raw(h, "</tbody></table></div>\n");
}

static void course(struct html *h, const json_t *steps, const char *of)
{
  int all = (int)MIN(json_array_size(steps), (size_t)1e9);
  struct plot p = {.h = h, .steps = steps, .n = MIN(all, MOST_STEPS)};
  if (*of) html_add(h, "<h3>%s</h3>\n", of);
  limits(&p);
  html_raw(h, "<div class=\"plots\">");
  picture(&p);
  rows(&p);
  html_raw(h, "</div>\n");
  if (p.n < all) html_add(h, "<p class=\"note\">%s more are in the report's data.</p>\n", html_plural(h, all - p.n, "step"));
}

static const char *why_none(const struct html *h)
{
  const json_t *gpu = json_object_get(h->r, "gpu");
  if (gpu && *html_txt(gpu, "unmeasured")) return "Nothing was measured, so there was no hill climb; the model's choice stands.";
  if (html_yes(h->r, "stopped")) return "The run ended before a hill climb began.";
  return "There was no hill climb: no candidate was measured to start from, or no time was given to it.";
}

void html_climb(struct html *h)
{
  const json_t *parts = json_object_get(h->r, "parts"), *whole = json_object_get(h->r, "climb"), *p;
  size_t i, courses = json_array_size(whole) > 0;
  html_section(h, "climb", "Climb");
  json_array_foreach(parts, i, p) courses += json_array_size(json_object_get(p, "climb")) > 0;
  if (!courses)
    html_add(h, "<p class=\"note\">%s</p>\n", why_none(h));
  else
    html_raw(h, "<p class=\"hint\">From the fastest candidates on, what is near them was measured, and what was faster by more than the noise became "
                "the next place to look from. A stroke is a line of such steps; "
                "a hollow disc is the winner, timed once more beside the others that were fastest. The axis of time need not begin at 0.</p>\n");
  json_array_foreach(parts, i, p) if (json_array_size(json_object_get(p, "climb")))
      course(h, json_object_get(p, "climb"), json_array_size(parts) > 1 ? arena_printf(h->mem, "Subprogram %d", (int)i + 1) : "");
  if (json_array_size(whole)) course(h, whole, "All subprograms together");
  html_section_end(h);
}
