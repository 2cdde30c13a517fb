// html: the report as one page that needs nothing but itself (docs/report.md says what it shows). Everything that can be read
// is in the markup; the script only adds what moves: pan and zoom, links on hover, sorting.
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
  const struct graph *source;     // NULL where the report's cannot be read
  const struct graph *g;          // what is shown as found: of a GPU what is launched, with library operators as block graphs
  const struct device_program *d; // of a GPU, or NULL
  const char *c;                  // of a CPU: the source, or NULL
  const char *no_kernels;         // why there is neither
};

// ---- html_text.c ----
// As printf, but what comes by %s is escaped. %s %d %lld %.*g and their like; no widths by *.
void html_add(struct html *h, const char *fmt, ...) PRINTF(2, 3);
void html_raw(struct html *h, const char *markup); // of this program, not of the report
void html_items(struct html *h, const char *text); // "a; b" or "a | b", each in a line of its own
void html_escape(struct str *out, const char *s, size_t n);
double html_num(const json_t *o, const char *key);
int html_int(const json_t *o, const char *key);         // at most 1e9
const char *html_txt(const json_t *o, const char *key); // "" where there is none
bool html_yes(const json_t *o, const char *key);
bool html_has(const json_t *o, const char *key);                           // a number
const char *html_time(const struct html *h, double us);                    // "1.23 ms"
const char *html_count(const struct html *h, double n);                    // "12,345"
const char *html_plural(const struct html *h, double n, const char *what); // "1 block", "12,345 blocks"
const char *html_unit(const struct html *h, double x, const char *unit);   // "1.23 Tunit"
const char *html_tensor(const struct html *h, const struct tensor *t);     // "f16[2, 3]"
void html_section(struct html *h, const char *id, const char *title);
void html_section_end(struct html *h);
// A bar, as a share of the box that it is in. Additions before the end are placed in the same box, and so have the same scale.
void html_bar(struct html *h, double share, bool model);
void html_bar_end(struct html *h);

// ---- html_sheet.c ----
struct sheet_box {
  double w, h, x, y; // w, h are given; x, y: its top left
  int stage;         // boxes of a later stage lie below all of an earlier one
  bool late;         // as far down as its readers allow
  int layer, order;  // set by the layout
};
struct sheet_edge {
  int from, to;
  int n; // points: the first at the bottom of `from`, the last at the top of `to`
  double *x, *y;
};
enum { SHEET_STAGES = 3 };
struct sheet {
  int nboxes, nedges;
  struct sheet_box *box; // edges go from boxes before to boxes after
  struct sheet_edge *edge;
  double w, h;
  double top[SHEET_STAGES], bottom[SHEET_STAGES]; // of each stage; bottom < top: it is empty
};
void sheet_arrange(struct arena *mem, struct sheet *s);

// ---- html_draw.c ----
void html_draw_kernels(struct html *h, const struct graph *g, const char *id, bool found); // a kernel graph; found: its kernels are links
void html_draw_block(struct html *h, const struct graph *g, int node);                     // the block graph in a node, thread graphs inside

// ---- html_lines.c ----
struct html_line {  // what a line of a listing is about
  const char *keys; // of nodes, separated by blanks; NULL: none
  int line;         // of the tile program, from 1; 0: none
};
int html_lines_in(const char *text, size_t n);
// launch: of the line keys, -1 where there are none. lines: by line, or NULL.
void html_listing(struct html *h, const char *label, const char *text, size_t n, int launch, const struct html_line *lines);
struct html_line *html_c_lines(struct html *h, const char *text, size_t n, int node); // of the C that was printed for a node of h->g
void html_tree(struct html *h, const struct graph *g, int node);                      // a node's graph as text; -1: the whole, with its own keys

double html_own_time(const struct html *h, int node); // of a kernel on a CPU, in microseconds; 0: not known (html_kernel.c)

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
