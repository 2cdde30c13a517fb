// Models in the format of ONNX are read, planned and divided into programs. Other nodes run on small inputs by their simple functions, as in constant
// folding.
#include "base/memory.h"
#include "fuzz.h"
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

static bool programs_hold(struct arena *mem, const struct onnx_model *m)
{
  int steps = 0, used = 0;
  for (int p = 0; p < m->nprograms; p++)
    if (!fuzz_graph(mem, m->programs[p].g)) return false;
  for (int i = 0; i < m->nsteps; i++) steps += m->steps[i].program >= 0 ? m->programs[m->steps[i].program].nnodes : 1;
  for (int i = 0; i < m->nnodes; i++) used += m->nodes[i].used && m->nodes[i].into < 0 && m->nodes[i].fate != ONNX_FOLDED;
  return steps == used || fuzz_broken("a node has no place in the order");
}

static bool told(const struct onnx_model *m)
{
  struct str text = {0};
  onnx_report_text(m, &text);
  json_t *v = onnx_report_json(m, "fuzz");
  char *json = v ? json_dumps(v, JSON_COMPACT) : NULL;
  bool good = text.n && json;
  for (int i = 0; i < m->nnodes && good; i++)
    if (m->nodes[i].fate == ONNX_UNSUPPORTED || (m->nodes[i].fate == ONNX_LEFT && m->nodes[i].used)) good = m->nodes[i].why && *m->nodes[i].why;
  mem_free(json);
  json_decref(v);
  str_free(&text);
  return good || fuzz_broken("a node was not taken and nobody says why");
}

bool fuzz_onnx(const uint8_t *data, size_t n)
{
  struct arena mem = {0};
  struct err e = {0};
  struct onnx_model *m = NULL;
  const struct setting set[] = {{"batch", 2}};
  int status = onnx_open_bytes(&mem, data, n, "fuzz.onnx", NULL, 0, NULL, &m, &e);
  if (status != OK && strstr(e.text, "`batch`")) { // the seeds' only symbol
    onnx_close(m);
    e = (struct err){0};
    status = onnx_open_bytes(&mem, data, n, "fuzz.onnx", NULL, 1, set, &m, &e);
  }
  bool good = status == OK ? e.id == ERR_NONE && told(m) && programs_hold(&mem, m) : fuzz_answer(status, NULL, &e);
  onnx_close(m);
  arena_close(&mem);
  return good;
}
