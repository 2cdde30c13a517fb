// The language, muGraphs as JSON, and muGraphs that Mirage saved.
#include "fuzz.h"

bool fuzz_mica(const uint8_t *data, size_t n)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g = NULL;
  int status = front_parse(&mem, (const char *)data, n, "fuzz.mica", 0, NULL, &g, &e);
  bool good = fuzz_answer(status, g, &e) && (status != OK || fuzz_graph(&mem, g));
  arena_close(&mem);
  return good;
}

bool fuzz_graph_json(const uint8_t *data, size_t n)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g = NULL;
  int status = graph_from_json(&mem, (const char *)data, n, "fuzz.json", &g, &e);
  bool good = fuzz_answer(status, g, &e) && (status != OK || fuzz_graph(&mem, g));
  arena_close(&mem);
  return good;
}

bool fuzz_mirage(const uint8_t *data, size_t n)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph **g = NULL;
  int count = 0, status = front_mirage(&mem, (const char *)data, n, "fuzz.json", F16, &g, &count, &e);
  bool good = status == OK ? e.id == ERR_NONE : fuzz_answer(status, NULL, &e);
  for (int i = 0; i < count && good; i++) good = fuzz_graph(&mem, g[i]);
  arena_close(&mem);
  return good;
}
