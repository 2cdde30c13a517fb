// Error messages: at most `keep` of each spec and class are kept, others are only counted.
#include "sim/machine.h"

const char *const sim_class_name[SIM_CLASSES] = {
#define CLASS(id, name, what) [SIM_##id] = name,
#include "sim/class.def"
#undef CLASS
};

void report(struct warp *w, const struct sim_atom *a, enum sim_class c, int lane, const char *fmt, ...)
{
  struct sim *s = w->s;
  struct sim_report *r = s->r;
  int same = 0;
  r->found++;
  for (int i = 0; i < r->nerrors; i++) {
    struct sim_error *e = &r->errors[i];
    if (e->kind != c || e->at.line != a->at.line || e->at.col != a->at.col) continue;
    if (++same < (s->in->keep ? s->in->keep : 3)) continue;
    e->times++;
    return;
  }
  struct sim_error e = {.kind = c, .at = a->at, .block = w->cta->number, .thread = w->number * LANES + lane, .times = 1};
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e.text, sizeof e.text, fmt, ap);
  va_end(ap);
  PUSH(s->mem, r->errors, r->nerrors, s->error_cap) = e;
}

void sim_print_errors(const struct sim_report *r, struct str *out)
{
  for (int i = 0; i < r->nerrors; i++) {
    const struct sim_error *e = &r->errors[i];
    str_add(out, "%s:%d:%d: %s: block %lld, thread %d %s", e->at.file ? e->at.file : "kernel", e->at.line, e->at.col, sim_class_name[e->kind],
            (long long)e->block, e->thread, e->text);
    if (e->times > 1) str_add(out, " (and %lld more like it)", (long long)e->times - 1);
    str_add(out, "\n");
  }
}
