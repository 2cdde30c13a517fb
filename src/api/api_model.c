// include/mica.h: several programs in one text.
#include "api/api.h"
#include "front/front.h"

#include <string.h>

struct mica_model {
  struct front_model x;
};

// Lists the entry points. Other mistakes are found when an entry point is loaded with its parameters.
static int of_text(struct mica_context *m, const char *text, size_t n, const char *name, struct mica_model **out)
{
  struct mica_model *x = NEW(&m->mem, struct mica_model);
  TRY(front_model_of(&m->mem, text, n, name, &x->x, &m->err));
  return *out = x, OK;
}

static int of_file(struct mica_context *m, const char *path, struct mica_model **out)
{
  char *text;
  size_t n;
  TRY(file_read(&m->mem, path, &text, &n, &m->err));
  return of_text(m, text, n, path, out);
}

int mica_model_load(struct mica_context *m, const char *path, struct mica_model **out)
{
  int status;
  CALL(m, status, of_file(m, path, out));
  return status;
}

int mica_model_load_text(struct mica_context *m, const char *text, const char *name, struct mica_model **out)
{
  int status;
  CALL(m, status, of_text(m, text, strlen(text), name, out));
  return status;
}

const char *mica_model_name(const struct mica_model *x) { return x->x.name ? x->x.name : ""; }
int mica_model_entries(const struct mica_model *x) { return x->x.nentries; }
int mica_model_shared(const struct mica_model *x) { return x->x.nshared; }
const char *mica_model_entry(const struct mica_model *x, int i) { return i >= 0 && i < x->x.nentries ? x->x.entry[i].name : NULL; }
const char *mica_model_shared_name(const struct mica_model *x, int i) { return i >= 0 && i < x->x.nshared ? x->x.shared[i] : NULL; }
