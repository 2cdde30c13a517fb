// html: the report as a self-contained page (docs/report.md describes it). The markup has all information; the script adds interaction: pan and zoom,
// highlighting on hover, sorting.
//
// Glossary
//   node key     "k3b5t2": node 2 of the thread graph in node 5 of the block graph in node 3 of the kernel graph. Items with the same key
//                are the same thing in the drawing, in the graph's text and in the kernels' texts
//   line key     "3:12": line 12 of the tile program of launch 3, and what was printed for it
//   sheet        a drawing in layers: boxes with places for edges
//
// Files
//   html_text.c    text with everything escaped, numbers for people, parts of the JSON document that may be missing
//   html_sheet.c   where boxes and edges go
//   html_draw.c    graphs as sheets, sheets as SVG
//   html_lines.c   texts of programs line by line, with their keys
//   html_kernel.c  the found graph: levels, and each kernel's drawing beside its texts
//   html_search.c  counters of the search; candidates
//   html_climb.c   how the time fell
//   html_roof.c    the roofline
//   html_words.c   certificate, checks, how to have it again
//   html_page.c    the page
//   html_page.css, html_page.js   embedded by the build
#ifndef MICA_REPORT_HTML_H
#define MICA_REPORT_HTML_H

#include "drive/drive.h"
#include "report/report.h"

struct html {
  struct arena *mem;
  struct str *out;
  const json_t *r;                // the report
  const struct graph *source;     // NULL if the report's cannot be read
  const struct graph *g;          // the graph that is shown as found: for a GPU the launched one, with library operators as block graphs
  const struct device_program *d; // for a GPU, or NULL
  const char *c;                  // for a CPU: the source, or NULL
  const char *no_kernels;         // reason why there is neither
};

// ---- html_text.c ----
// As printf, but arguments of %s are escaped. Supports %s %d %lld %.*g and similar; no * widths.
void html_add(struct html *h, const char *fmt, ...) PRINTF(2, 3);
void html_raw(struct html *h, const char *markup); // for trusted markup, not for text of the report
void html_items(struct html *h, const char *text); // "a; b" or "a | b", each item in its own line
void html_escape(struct str *out, const char *s, size_t n);
double html_num(const json_t *o, const char *key);
int html_int(const json_t *o, const char *key);         // at most 1e9
const char *html_txt(const json_t *o, const char *key); // "" if it is missing
bool html_yes(const json_t *o, const char *key);
bool html_has(const json_t *o, const char *key);                           // whether it is a number
const char *html_time(const struct html *h, double us);                    // "1.23 ms"
const char *html_count(const struct html *h, double n);                    // "12,345"
const char *html_plural(const struct html *h, double n, const char *what); // "1 block", "12,345 blocks"
const char *html_unit(const struct html *h, double x, const char *unit);   // "1.23 Tunit"
const char *html_tensor(const struct html *h, const struct tensor *t);     // "f16[2, 3]"
void html_section(struct html *h, const char *id, const char *title);
void html_section_end(struct html *h);
// A bar, as a share of its box. Parts added before the end are placed in the same box, with the same scale.
void html_bar(struct html *h, double share, bool model);
void html_bar_end(struct html *h);

// ---- html_sheet.c ----
struct sheet_box {
  double w, h, x, y; // w, h: input; x, y: top left corner
  int stage;         // boxes of a later stage are below all of an earlier one
  bool late;         // as low as its readers allow
  int layer, order;  // set by the layout
};
struct sheet_edge {
  int from, to;
  int n; // number of points: the first at the bottom of `from`, the last at the top of `to`
  double *x, *y;
};
enum { SHEET_STAGES = 3 };
struct sheet {
  int nboxes, nedges;
  struct sheet_box *box; // edges go from earlier to later boxes
  struct sheet_edge *edge;
  double w, h;
  double top[SHEET_STAGES], bottom[SHEET_STAGES]; // of each stage; bottom < top: empty
};
void sheet_arrange(struct arena *mem, struct sheet *s);

// ---- html_draw.c ----
void html_draw_kernels(struct html *h, const struct graph *g, const char *id, bool found); // a kernel graph; found: its kernels are links
void html_draw_block(struct html *h, const struct graph *g, int node);                     // the block graph in a node, with nested thread graphs

// ---- html_lines.c ----
struct html_line {  // the subject of a line
  const char *keys; // keys of nodes, separated by spaces; NULL: none
  int line;         // line of the tile program, from 1; 0: none
};
int html_lines_in(const char *text, size_t n);
// launch: number in line keys, -1 without. lines: for each line, or NULL.
void html_listing(struct html *h, const char *label, const char *text, size_t n, int launch, const struct html_line *lines);
struct html_line *html_c_lines(struct html *h, const char *text, size_t n, int node); // of the C printed for a node of h->g
// a node's graph as text; -1: the whole graph, with its own keys
void html_tree(struct html *h, const struct graph *g, int node);

double html_own_time(const struct html *h, int node); // time of a kernel on a CPU in microseconds; 0: unknown (html_kernel.c)

// ---- html_kernel.c, html_search.c, html_climb.c, html_roof.c, html_words.c: sections ----
void html_summary(struct html *h);
void html_program(struct html *h);
void html_kernels(struct html *h);
void html_counters(struct html *h);
void html_candidates(struct html *h);
void html_climb(struct html *h);
void html_roofline(struct html *h);
void html_certificate(struct html *h);
void html_checks(struct html *h);
void html_again(struct html *h);

#endif
