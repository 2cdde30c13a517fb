// report: prints the JSON document of a job (drive/report_json.c) as text and as a page. Any JSON object is accepted; missing members are reported as
// missing.
//
//   report_text.c  the report as text
//   html_*.c       the report as a page (html.h)
#ifndef MICA_REPORT_H
#define MICA_REPORT_H

#include "base/base.h"
#include "base/doc.h"

struct device_program;

// ---- report_text.c ----
void report_text(struct arena *mem, const json_t *report, const char *folder, struct str *out);
const char *report_duration(char out[32], double us); // "1.23 ms"
const char *report_grouped(char out[32], double x);   // "12,345"

// ---- html_page.c ----
void report_html(struct arena *mem, const json_t *report, struct str *out);
// d: the program launched on a GPU; c: the source for a CPU; both NULL: they are made from the report.
void html_page(struct arena *mem, const json_t *report, const struct device_program *d, const char *c, struct str *out);

#endif
