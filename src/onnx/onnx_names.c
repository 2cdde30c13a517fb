// Values by name: a hash table with open addressing, at most half full.
#include "onnx/onnx.h"

#include <string.h>

struct onnx_names {
  int *slot, n; // value + 1; n is a power of two
};

static uint64_t hash_of(const char *name) { return hash_bytes(name, strlen(name), 0); }

static int *slot_of(const struct onnx_model *m, const struct onnx_names *t, const char *name)
{
  for (uint64_t h = hash_of(name);; h++) {
    int *s = &t->slot[h & (uint64_t)(t->n - 1)];
    if (!*s || !strcmp(m->values[*s - 1].name, name)) return s;
  }
}

int onnx_find(const struct onnx_model *m, const char *name) { return m->names ? *slot_of(m, m->names, name) - 1 : -1; }

static void grow(struct onnx_model *m)
{
  struct onnx_names *t = NEW(m->mem, struct onnx_names);
  t->n = m->names ? 2 * m->names->n : 256;
  t->slot = NEWS(m->mem, int, t->n);
  for (int v = 0; v < m->nvalues; v++) *slot_of(m, t, m->values[v].name) = v + 1;
  m->names = t;
}

int onnx_value_of(struct onnx_model *m, const char *name)
{
  if (!m->names || 2 * (m->nvalues + 1) > m->names->n) grow(m);
  int *s = slot_of(m, m->names, name);
  if (*s) return *s - 1;
  PUSH(m->mem, m->values, m->nvalues, m->values_cap) = (struct onnx_value){.name = name, .node = -1};
  *s = m->nvalues;
  return m->nvalues - 1;
}
