#include "tiles.h"

#include "sim/number.h"

enum { MOST = 16 };

static int settings(struct tile_run *t, const char *set, struct tile_setting *out)
{
  int n = 0;
  for (const char *p = set; p && *p && n < MOST;) {
    char name[64];
    long long value;
    int used = 0;
    if (sscanf(p, "%63[^=]=%lld%n", name, &value, &used) != 2) fail_msg("settings: %s", set);
    out[n++] = (struct tile_setting){arena_strdup(&t->mem, name), value, false};
    p += used;
    p += *p == ',';
  }
  return n;
}

static int arch_of(const struct tile_kernel *k) { return MAX(k->arch, 80); }

void tile_open(struct tile_run *t, const char *file, const char *text, const char *set)
{
  memset(t, 0, sizeof *t);
  struct tile_setting s[MOST];
  int n = settings(t, set, s);
  if (tile_parse_set(&t->mem, file, text, n, s, &t->p, &t->e)) fail_msg("%s:%d: %s", file, t->e.at.line, t->e.text);
  t->k = t->p->kernels[0];
  for (int i = 0; i < t->k->nparams; i++) {
    const struct ex_node *v = ex_is_const(t->k->params[i]) ? NULL : ex_node(t->p->ex, t->k->params[i]);
    t->params[i] = v ? v->range.lo : ex_value(t->k->params[i]);
    for (int j = 0; v && j < n; j++)
      if (!strcmp(s[j].name, v->name)) t->params[i] = s[j].value;
  }
  if (tile_lower(t->p, t->k, arch_of(t->k), &t->e)) fail_msg("%s:%d: %s", file, t->e.at.line, t->e.text);
}

void tile_close(struct tile_run *t)
{
  for (int i = 0; i < t->nbuffers; i++) free(t->owned[i]);
  arena_close(&t->mem);
}

static bool listed(const char *list, const char *name)
{
  size_t n = strlen(name);
  for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
    if (strcspn(p, ",") == n && !strncmp(p, name, n)) return true;
  return false;
}

void tile_fill(struct tile_run *t, uint64_t seed, const char *fresh)
{
  struct rng r = {seed};
  for (int b = 0; b < t->k->nbuffers; b++) {
    const struct tile_buffer *buf = &t->k->buffers[b];
    if (buf->mem != MEM_GL) continue;
    int64_t n;
    assert_int_equal(sim_elements(t->p, t->k, t->params, b, &n, &t->e), OK);
    size_t bytes = (size_t)n * (size_t)tile_types[buf->type].bytes;
    void *data = aligned_alloc(256, (bytes + 512) / 256 * 256);
    t->owned[t->nbuffers] = data;
    for (int64_t i = 0; i < n; i++) {
      double x = num_floats(&tile_types[buf->type]) ? rng_normal(&r) : (double)(1 + rng_below(&r, 7));
      num_set(buf->type, x, (char *)data + (size_t)i * (size_t)tile_types[buf->type].bytes);
    }
    t->buffers[t->nbuffers++] = (struct sim_buffer){data, bytes, !listed(fresh, buf->name)};
  }
}

static const struct tile_buffer *find(struct tile_run *t, const char *name, int *index)
{
  *index = 0;
  for (int b = 0; b < t->k->nbuffers; b++) {
    if (t->k->buffers[b].mem != MEM_GL) continue;
    if (!strcmp(t->k->buffers[b].name, name)) return &t->k->buffers[b];
    ++*index;
  }
  fail_msg("no buffer %s", name);
  return NULL;
}

void *tile_data(struct tile_run *t, const char *name, int64_t *elements)
{
  int i;
  const struct tile_buffer *b = find(t, name, &i);
  if (elements) *elements = (int64_t)t->buffers[i].bytes / tile_types[b->type].bytes;
  return t->buffers[i].data;
}

double tile_get(struct tile_run *t, const char *name, int64_t element)
{
  int i;
  const struct tile_buffer *b = find(t, name, &i);
  return num_one(b->type, (const char *)t->buffers[i].data + element * tile_types[b->type].bytes);
}

int tile_go(struct tile_run *t)
{
  struct sim_input in = {.params = t->params, .buffers = t->buffers, .nbuffers = t->nbuffers, .slow = t->slow};
  return sim_run(&t->mem, t->p, t->k, &in, &t->r, &t->e);
}

void tile_clean(struct tile_run *t)
{
  if (tile_go(t)) fail_msg("%s:%d: %s", t->p->file, t->e.at.line, t->e.text);
  if (!t->r.found) return;
  struct str s = {0};
  sim_print_errors(&t->r, &s);
  fail_msg("%lld errors\n%s", (long long)t->r.found, str_text(&s));
}

void tile_shift(struct tile_run *t, const char *name, int bytes)
{
  int i;
  find(t, name, &i);
  memmove((char *)t->buffers[i].data + bytes, t->buffers[i].data, t->buffers[i].bytes);
  t->buffers[i].data = (char *)t->buffers[i].data + bytes;
}
