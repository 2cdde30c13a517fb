// Text of the page. One function, which every section uses, escapes text of the report. Control characters, and characters that change the direction
// of text, are shown as numbers, so a name cannot imitate something else.
#include "report/html.h"
#include "base/visible.h"

#include <math.h>
#include <string.h>

// ---- escaping ----

void html_escape(struct str *out, const char *s, size_t n)
{
  while (n && *s) {
    unsigned code;
    size_t len = visible_decode(s, n, &code);
    const char *entity = *s == '&' ? "&amp;" : *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : *s == '"' ? "&quot;" : *s == '\'' ? "&#39;" : NULL;
    if (!len)
      str_add(out, "&#xfffd;");
    else if (entity)
      str_add(out, "%s", entity);
    else if (visible_hidden(code))
      str_add(out, "\\u{%x}", code);
    else
      str_raw(out, s, len);
    s += MAX(len, 1), n -= MAX(len, 1);
  }
}

// ---- writing ----

// Handles one conversion of the format.
static void convert(struct str *out, const char *spec, va_list *ap)
{
  char text[64];
  size_t n = strlen(spec);
  bool wide = strstr(spec, "ll") != NULL;
  switch (spec[n - 1]) {
  case 's': {
    const char *s = va_arg(*ap, const char *);
    html_escape(out, s ? s : "", s ? strlen(s) : 0);
    return;
  }
  case 'd':
    if (wide)
      snprintf(text, sizeof text, "%lld", va_arg(*ap, long long));
    else
      snprintf(text, sizeof text, "%d", va_arg(*ap, int));
    break;
  case 'c': snprintf(text, sizeof text, "%c", va_arg(*ap, int)); break;
  default: {
    const char *dot = strchr(spec, '.');
    int digits = dot ? dot[1] - '0' : 6;
    double x = va_arg(*ap, double);
    snprintf(text, sizeof text, spec[n - 1] == 'f' && fabs(x) < 1e15 ? "%.*f" : "%.*g", digits, x);
  }
  }
  html_escape(out, text, strlen(text));
}

void html_add(struct html *h, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  while (*fmt) {
    size_t plain = strcspn(fmt, "%");
    str_raw(h->out, fmt, plain);
    fmt += plain;
    if (!*fmt) break;
    if (fmt[1] == '%') {
      str_raw(h->out, "%", 1);
      fmt += 2;
      continue;
    }
    char spec[8] = "";
    size_t n = strcspn(fmt + 1, "sdcgef") + 2;
    CHECK(n < sizeof spec);
    memcpy(spec, fmt, n);
    convert(h->out, spec, &ap);
    fmt += n;
  }
  va_end(ap);
}

void html_raw(struct html *h, const char *markup) { str_raw(h->out, markup, strlen(markup)); }

void html_items(struct html *h, const char *text)
{
  for (size_t n; *text; text += n) {
    const char *a = strstr(text, "; "), *b = strstr(text, " | "), *end = a && (!b || a < b) ? a + 2 : b ? b + 3 : text + strlen(text);
    n = (size_t)(end - text);
    html_escape(h->out, text, n);
    if (text[n]) html_raw(h, "<br>");
  }
}

void html_section(struct html *h, const char *id, const char *title)
{
  html_add(h, "<section id=\"%s\" aria-labelledby=\"%s-title\">\n<h2 id=\"%s-title\">%s</h2>\n", id, id, id, title);
}

void html_section_end(struct html *h) { html_raw(h, "</section>\n"); }

void html_bar(struct html *h, double share, bool model)
{
  html_raw(h, "<span class=\"track\">");
  if (share > 0) html_add(h, "<span class=\"bar%s\" style=\"width:%.1f%%\"></span>", model ? " model" : "", 100 * MIN(1, share));
}

void html_bar_end(struct html *h) { html_raw(h, "</span>"); }

// ---- the document ----

double html_num(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }
bool html_yes(const json_t *o, const char *key) { return json_is_true(json_object_get(o, key)); }
bool html_has(const json_t *o, const char *key) { return json_is_number(json_object_get(o, key)); }

int html_int(const json_t *o, const char *key)
{
  double x = html_num(o, key);
  return x > 1e9 ? 1000000000 : x < -1e9 ? -1000000000 : (int)x;
}

const char *html_txt(const json_t *o, const char *key)
{
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

// ---- numbers ----

const char *html_time(const struct html *h, double us)
{
  char text[32];
  if (us > 0 && us < 1e12) return arena_strdup(h->mem, report_duration(text, us));
  return "\xe2\x80\x93"; // a dash
}

const char *html_count(const struct html *h, double n)
{
  char text[32];
  return fabs(n) < 1e15 ? arena_strdup(h->mem, report_grouped(text, n)) : arena_printf(h->mem, "%.3g", n);
}

const char *html_plural(const struct html *h, double n, const char *what)
{
  return arena_printf(h->mem, "%s %s%s", html_count(h, n), what, n == 1 ? "" : "s");
}

const char *html_unit(const struct html *h, double x, const char *unit)
{
  static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
  size_t i = 0;
  for (; x >= 1000 && i + 1 < COUNT(prefix); i++) x /= 1000;
  if (!i && x == floor(x)) return arena_printf(h->mem, "%.0f %s", x, unit);
  return arena_printf(h->mem, "%.*f %s%s", x < 10 ? 2 : x < 100 ? 1 : 0, x, prefix[i], unit);
}

const char *html_tensor(const struct html *h, const struct tensor *t)
{
  char shape[128];
  shape_text(shape, &t->shape);
  return arena_printf(h->mem, "%s%s", dtype_name(t->dtype), shape);
}
