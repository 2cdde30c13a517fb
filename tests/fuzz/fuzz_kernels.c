// Kernels in the tile language, which get their instructions; decode steps of persistent kernels, as text and as configurations, which are planned.
#include "base/memory.h"
#include "fuzz.h"
#include "mega/mega.h"
#include "tile/tile.h"

#include <string.h>

static bool same_again(struct arena *mem, const struct tile_program *p)
{
  struct str once = {0}, twice = {0};
  struct err e = {0};
  struct tile_program *again;
  tile_text(p, &once);
  bool good = tile_parse(mem, "printed", str_text(&once), &again, &e) == OK;
  if (good) tile_text(again, &twice), good = !strcmp(str_text(&once), str_text(&twice));
  str_free(&once), str_free(&twice);
  return good || fuzz_broken("the printed kernels read as others");
}

bool fuzz_tile(const uint8_t *data, size_t n)
{
  struct arena mem = {0};
  struct err e = {0};
  struct tile_program *p = NULL;
  const char *text = arena_printf(&mem, "%.*s", (int)n, (const char *)data);
  int status = tile_parse(&mem, "fuzz.tile", text, &p, &e);
  bool good = status == OK ? same_again(&mem, p) : e.id != ERR_NONE && *e.text;
  for (int i = 0; good && status == OK && i < p->nkernels; i++) {
    const int lowered = tile_lower(p, p->kernels[i], p->kernels[i]->arch, &e);
    good = lowered == OK || (e.id != ERR_NONE && *e.text);
    e = (struct err){0};
  }
  arena_close(&mem);
  return good;
}

static bool planned(struct arena *mem, const struct mega_model *m)
{
  struct str text = {0};
  struct err e = {0};
  struct mega_model *again;
  struct mega_plan *p;
  const struct mega_sizes sizes = {.context = -1};
  mega_print(m, NULL, &text);
  bool good = mega_parse(mem, str_text(&text), text.n, "printed", &sizes, &again, &e) == OK || fuzz_broken(e.text);
  str_free(&text);
  if (!good) return false;
  return mega_plan_make(mem, m, &p, &e) == OK || (e.id != ERR_NONE && *e.text);
}

bool fuzz_mega(const uint8_t *data, size_t n)
{
  struct arena mem = {0};
  struct err e = {0};
  struct mega_model *m = NULL;
  const struct mega_sizes sizes = {.context = -1};
  const int status = mega_parse(&mem, (const char *)data, n, "fuzz.mega", &sizes, &m, &e);
  const bool good = status == OK ? planned(&mem, m) : e.id != ERR_NONE && *e.text;
  arena_close(&mem);
  return good;
}

bool fuzz_mega_config(const uint8_t *data, size_t n)
{
  struct arena mem = {0};
  struct err e = {0};
  struct mega_config c;
  struct mega_model *m = NULL;
  const struct mega_sizes sizes = {.workers = 4};
  int status = mega_config_read(&mem, (const char *)data, n, "fuzz.json", &c, &e);
  if (status == OK) status = mega_from_config(&mem, &c, &sizes, &m, &e);
  const bool good = status == OK || (e.id != ERR_NONE && *e.text);
  arena_close(&mem);
  return good;
}
