// End times of the tasks of the last step, in the Trace Event Format (Chrome, Perfetto), with a thread for each worker. A task begins at the end of
// the previous one.
#include "base/doc.h"
#include "serve/serve.h"

int serve_trace(const struct serve *s, const char *path, struct err *e)
{
  json_t *events = json_array();
  for (int w = 0; w < s->m->workers; w++) {
    double from = 0;
    for (int n = 0; n < s->p->nnodes; n++) {
      char name[80];
      double end = s->ended[w * s->p->nnodes + n];
      if (end <= 0) continue;
      mega_node_name(s->p, n, name);
      if (from > 0 && end >= from)
        json_array_append_new(events, json_pack("{s:s, s:s, s:i, s:i, s:f, s:f}", "name", name, "ph", "X", "pid", 0, "tid", w, "ts", 1e6 * from,
                                                "dur", 1e6 * (end - from)));
      from = end;
    }
  }
  size_t n = json_array_size(events);
  json_t *all = json_pack("{s:o, s:s}", "traceEvents", events, "displayTimeUnit", "ns");
  struct str text = {0};
  int status = OK;
  json_text(all, &text);
  if (n)
    status = file_write(path, text.p, text.n, e);
  else
    status = err_set(e, ERR_MEGA, NOWHERE, "there is nothing to trace: no step has been traced"),
    err_hint(e, "ask for a trace where the model is opened");
  str_free(&text);
  json_decref(all);
  return status;
}
