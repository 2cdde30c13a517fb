// include/mica.h: persistent kernels of language models. A handle is a model of src/serve.
#include "api/api.h"
#include "base/memory.h"
#include "serve/serve.h"

#include <string.h>

enum { USUAL_PAGES = 64 };

struct mica_mega {
  struct mica_context *m;
  struct mica_mega *next, **link; // list of the context
  struct serve *s;
  int slots, pages;
};

_Static_assert(sizeof(struct mica_mega_row) == sizeof(struct serve_row) && offsetof(struct mica_mega_row, seed) == offsetof(struct serve_row, seed) &&
                   offsetof(struct mica_mega_row, pages) == offsetof(struct serve_row, pages) &&
                   offsetof(struct mica_mega_row, temperature) == offsetof(struct serve_row, temperature),
               "rows are taken as they are");

void mica_mega_options_init(struct mica_mega_options *o, size_t size)
{
  const struct mica_mega_options all = {.size = sizeof all, .engine = "cpu"};
  memset(o, 0, size);
  memcpy(o, &all, MIN(size, sizeof all));
  if (size >= sizeof o->size) o->size = size;
}

static int take_options(const struct mica_mega_options *o, struct mica_mega_options *out, struct err *e)
{
  mica_mega_options_init(out, sizeof *out);
  if (!o) return OK;
  if (o->size < offsetof(struct mica_mega_options, device))
    return err_set(e, ERR_OPTION, NOWHERE, "the options have no size; mica_mega_options_init sets it");
  memcpy(out, o, MIN(o->size, sizeof *out));
  if (!out->engine) out->engine = "cpu";
  if (strcmp(out->engine, "cpu") && strcmp(out->engine, "gpu")) {
    err_set(e, ERR_OPTION, NOWHERE, "there is no engine %.40s", out->engine);
    return err_hint(e, "there are cpu and gpu"), USER;
  }
  if (out->rows < 0 || out->pages < 0 || out->workers < 0 || out->attention_parts < 0 || !(out->deadline >= 0))
    return err_set(e, ERR_OPTION, NOWHERE, "rows, pages, workers, the parts of attention and the deadline are not negative");
  return OK;
}

// ---- opening, closing ----

void mica_mega_close(struct mica_mega *x)
{
  if (!x) return;
  if (x->link && (*x->link = x->next)) x->next->link = x->link;
  serve_close(x->s);
  mem_free(x);
}

void megas_close(struct mica_context *m)
{
  while (m->megas) mica_mega_close(m->megas);
}

static void drop(void *x) { mica_mega_close(x); }
static const struct mem_kind handle = {.close = drop};

static int open_mega(struct mica_context *m, const char *text, const char *name, const struct mica_mega_options *given, struct mica_mega **out)
{
  struct mica_mega_options o;
  TRY(take_options(given, &o, &m->err));
  struct serve_given g = {.text = text, .n = strlen(text), .name = name, .gpu = !strcmp(o.engine, "gpu"), .device = o.device, .deadline = o.deadline};
  g.traced = o.trace;
  g.sizes = (struct mega_sizes){
      .rows = o.rows, .workers = o.workers, .parts = o.attention_parts, .pages = o.pages ? o.pages : MAX(USUAL_PAGES, o.rows + 1), .context = -1};
  struct mica_mega *x = mem_handle(sizeof *x, &handle);
  int64_t slots;
  x->m = m;
  int status = serve_open(&g, &x->s, &m->err);
  if (status != OK) return mica_mega_close(x), status;
  x->pages = (int)mega_pages_of(x->s->m, &slots), x->slots = (int)slots;
  mem_keep(x);
  x->next = m->megas, x->link = &m->megas;
  if (x->next) x->next->link = &x->next;
  return *out = m->megas = x, OK;
}

int mica_mega_open(struct mica_context *m, const char *text, const char *name, const struct mica_mega_options *o, struct mica_mega **out)
{
  int status;
  CALL(m, status, open_mega(m, text, name, o, out));
  return status;
}

// ---- questions ----

int mica_mega_rows(const struct mica_mega *x) { return x->s->m->rows; }
int mica_mega_pages(const struct mica_mega *x, int *slots)
{
  if (slots) *slots = x->slots;
  return x->pages;
}

static bool told(const struct mega_tensor *t) { return serve_floats(t) && t->kind != MEGA_ACTIVATION && t->kind != MEGA_INPUT; }

int mica_mega_tensors(const struct mica_mega *x)
{
  int n = 0;
  for (int t = 0; t < x->s->m->ntensors; t++) n += told(&x->s->m->tensor[t]);
  return n;
}

struct mica_mega_value mica_mega_tensor(const struct mica_mega *x, int i)
{
  struct mica_mega_value out = {.tensor = {.name = ""}};
  for (int t = 0; t < x->s->m->ntensors; t++) {
    const struct mega_tensor *a = &x->s->m->tensor[t];
    if (!told(a) || i--) continue;
    out.tensor = (struct mica_tensor){.name = a->name, .dtype = (enum mica_dtype)a->type, .ndim = a->rank};
    memcpy(out.tensor.shape, a->dim, sizeof *a->dim * (size_t)a->rank);
    out.kind = a->kind == MEGA_WEIGHTS ? MICA_MEGA_WEIGHTS : a->kind == MEGA_STATE ? MICA_MEGA_STATE : MICA_MEGA_OUTPUT;
    break;
  }
  return out;
}

static int tell(struct mica_mega *x, const char *what, const char **text)
{
  struct str out = {0};
  struct err *e = &x->m->err;
  int status = OK;
  if (!strcmp(what, "plan"))
    mega_plan_text(x->s->p, &out);
  else if (!strcmp(what, "text"))
    mega_print(x->s->m, x->s->p, &out);
  else if (!strcmp(what, "proof"))
    status = serve_prove(x->s, &out, e);
  else if (!strcmp(what, "cuda"))
    status = serve_source(x->s, &out, e);
  else
    status = mega_dump(&x->m->mem, x->s->p, what, &out, e);
  if (status == OK) *text = arena_strdup(&x->m->mem, str_text(&out));
  str_free(&out);
  return status;
}

int mica_mega_tell(struct mica_mega *x, const char *what, const char **text)
{
  int status;
  CALL(x->m, status, tell(x, what, text));
  return status;
}

const char *mica_mega_fault(const struct mica_mega *x) { return x->s->record; }
double mica_mega_seconds(const struct mica_mega *x) { return x->s->seconds; }

// ---- work ----

int mica_mega_weights(struct mica_mega *x, const char *name, enum mica_dtype dtype, int64_t count, const void *data)
{
  int status;
  CALL(x->m, status, serve_value(x->s, name, data, (int)dtype, count, &x->m->err));
  return status;
}

int mica_mega_random(struct mica_mega *x, uint64_t seed)
{
  int status;
  CALL(x->m, status, serve_random(x->s, seed, &x->m->err));
  return status;
}

int mica_mega_step(struct mica_mega *x, const struct mica_mega_row *rows, int steps, int32_t *tokens, float *logits)
{
  int status;
  CALL(x->m, status, serve_step(x->s, (const struct serve_row *)rows, steps, tokens, logits, &x->m->err));
  return status;
}

int mica_mega_trace(struct mica_mega *x, const char *path)
{
  int status;
  CALL(x->m, status, serve_trace(x->s, path, &x->m->err));
  return status;
}

int mica_mega_plant(struct mica_mega *x, bool on)
{
  int status;
  CALL(x->m, status, serve_plant(x->s, on, &x->m->err));
  return status;
}
