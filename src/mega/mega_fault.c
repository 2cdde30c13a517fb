// Faults that checks report, and the result of a proof as text.
#include "mega/mega.h"

const struct mega_check_row mega_checks[] = {
#define CHECK_ROW(id, name, what) {name, what},
#include "mega/check.def"
};

void mega_fault_add(const struct mega_plan *p, struct mega_proof *to, enum mega_check c, int node, int tile, int event, const char *fmt, ...)
{
  char name[80] = "";
  if (to->nfaults++ >= MEGA_MOST_FAULTS) return;
  struct mega_fault *f = &to->fault[to->nfaults - 1];
  *f = (struct mega_fault){c, node, tile, event, ""};
  size_t n = 0, room = sizeof f->text;
  if (node >= 0) mega_node_name(p, node, name), n += (size_t)snprintf(f->text, room, "%s", name);
  if (tile >= 0) n += (size_t)snprintf(f->text + n, room - n, " tile %d", tile);
  if (event >= 0) n += (size_t)snprintf(f->text + n, room - n, "%sevent %d", n ? ", " : "", event);
  if (n) n += (size_t)snprintf(f->text + n, room - n, ": ");
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(f->text + n, room - n, fmt, ap);
  va_end(ap);
}

void mega_proof_text(const struct mega_proof *r, struct str *out)
{
  for (int c = 0; c < MEGA_CHECKS; c++) {
    bool failed = r->nfaults && (int)r->fault[0].check == c;
    str_add(out, "  %-9s %-7s %s", mega_checks[c].name, failed ? "FAILED" : r->done[c] ? "holds" : "-", mega_checks[c].what);
    if (r->done[c] && !failed) str_add(out, " (%lld checked)", (long long)r->looked[c]);
    str_add(out, "\n");
    for (int i = 0; failed && i < MIN(r->nfaults, MEGA_MOST_FAULTS); i++) str_add(out, "            %s\n", r->fault[i].text);
    if (failed && r->nfaults > MEGA_MOST_FAULTS) str_add(out, "            and %d more\n", r->nfaults - MEGA_MOST_FAULTS);
  }
}
