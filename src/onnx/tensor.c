// TensorProto. Elements are raw bytes in the model, lists of numbers, or in another file. A raw tensor points into the mapped file. Lists are decoded
// to raw bytes; lists of floats are raw bytes already. Files of external data must be in the model's folder after all links are followed, and be long
// enough.
#include "onnx/message.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct read {
  const char *name;
  int type;
  struct onnx_ints dims, i32, i64, u64; // i32: also for bool, int8, float16, ...
  struct onnx_ints loose;               // bits of reals that are not packed
  struct onnx_bytes raw, f32, f64;      // packed lists are bytes
  bool has_raw, segment, strings;
  int64_t location;
  const char *file, *offset, *length; // of external data
};
struct pair {
  const char *key, *value;
};

static const struct onnx_field pair_fields[] = {
    {1, WIRE_BYTES, onnx_read_text, offsetof(struct pair, key)},
    {2, WIRE_BYTES, onnx_read_text, offsetof(struct pair, value)},
};

static int read_external(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct read *t = into;
  struct pair p = {.key = "", .value = ""};
  int s = onnx_message(r, f->bytes, pair_fields, COUNT(pair_fields), "StringStringEntryProto", &p);
  if (!strcmp(p.key, "location")) t->file = p.value;
  if (!strcmp(p.key, "offset")) t->offset = p.value;
  if (!strcmp(p.key, "length")) t->length = p.value;
  return s;
}

static int read_raw(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct read *t = into;
  (void)r;
  t->raw = f->bytes, t->has_raw = true;
  return OK;
}

// Lists of floats or doubles. Several packed lists, which no exporter writes, are refused.
static int read_reals(struct onnx_parse *r, const struct wire_field *f, struct read *t, struct onnx_bytes *list, size_t each)
{
  if (f->kind == (each == 4 ? WIRE_32 : WIRE_64)) return PUSH(r->m->mem, t->loose.v, t->loose.n, t->loose.cap) = (int64_t)f->value, OK;
  if (f->kind != WIRE_BYTES || f->bytes.n % each || list->n) return onnx_bad(r->m, r->e, "a list of numbers has the wrong kind or length");
  *list = f->bytes;
  return OK;
}

static int read_f32(struct onnx_parse *r, const struct wire_field *f, void *into) { return read_reals(r, f, into, &((struct read *)into)->f32, 4); }

static int read_f64(struct onnx_parse *r, const struct wire_field *f, void *into) { return read_reals(r, f, into, &((struct read *)into)->f64, 8); }

static int read_segment(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  (void)r, (void)f;
  return *(bool *)into = true, OK;
}

static const struct onnx_field fields[] = {
    {1, WIRE_ANY, onnx_read_ints, offsetof(struct read, dims)},
    {2, WIRE_VARINT, onnx_read_int, offsetof(struct read, type)},
    {3, WIRE_BYTES, read_segment, offsetof(struct read, segment)},
    {4, WIRE_ANY, read_f32, 0},
    {5, WIRE_ANY, onnx_read_ints, offsetof(struct read, i32)},
    {6, WIRE_BYTES, read_segment, offsetof(struct read, strings)},
    {7, WIRE_ANY, onnx_read_ints, offsetof(struct read, i64)},
    {8, WIRE_BYTES, onnx_read_text, offsetof(struct read, name)},
    {9, WIRE_BYTES, read_raw, 0},
    {10, WIRE_ANY, read_f64, 0},
    {11, WIRE_ANY, onnx_read_ints, offsetof(struct read, u64)},
    {13, WIRE_BYTES, read_external, 0},
    {14, WIRE_VARINT, onnx_read_int64, offsetof(struct read, location)},
};

// ---- external data ----

static int file_of(struct onnx_model *m, const char *path, struct err *e, int *file)
{
  for (*file = 1; *file < m->nfiles; ++*file)
    if (!strcmp(m->files[*file].path, path)) return OK;
  if (m->nfiles == ONNX_FILES) return onnx_bad(m, e, "external data lies in more than %d files", ONNX_FILES - 1);
  int s = onnx_map_open(m->mem, path, &m->files[m->nfiles], e);
  if (s == OK) m->nfiles++;
  return s;
}

// Opens a path that stays within the folder, before and after links are followed.
static int inside(struct onnx_model *m, const char *name, const char **path, struct err *e)
{
  char folder[PATH_MAX], real[PATH_MAX];
  for (const char *p = name; *p; p += strcspn(p, "/"), p += *p == '/')
    if (!strncmp(p, "..", 2) && (p[2] == '/' || !p[2])) return onnx_bad(m, e, "external data `%.200s` is outside of the model's folder", name);
  if (!*name || *name == '/' || strchr(name, '\\')) return onnx_bad(m, e, "external data `%.200s` is no path in the model's folder", name);
  if (!m->folder) return onnx_bad(m, e, "external data `%.200s`, and the model has no folder", name);
  if (!realpath(m->folder, folder)) return onnx_bad(m, e, "cannot open the folder %.300s: %s", m->folder, strerror(errno));
  const char *joined = arena_printf(m->mem, "%s/%s", folder, name);
  if (!realpath(joined, real)) return err_set(e, ERR_FILE, NOWHERE, "cannot open %.500s: %s", joined, strerror(errno));
  size_t n = strlen(folder);
  if (strcmp(folder, "/") && (strncmp(real, folder, n) || real[n] != '/'))
    return onnx_bad(m, e, "external data `%.200s` leads out of the model's folder", name);
  *path = arena_strdup(m->mem, real);
  return OK;
}

static bool number(const char *text, int64_t *x)
{
  char *end;
  errno = 0;
  *x = text ? strtoll(text, &end, 10) : 0;
  return !text || (!errno && end != text && !*end && *x >= 0);
}

static int external(struct onnx_model *m, const struct read *r, struct onnx_tensor *t, struct err *e)
{
  const char *path;
  int64_t offset, length, need = (int64_t)t->bytes;
  int s = inside(m, r->file ? r->file : "", &path, e);
  if (s == OK) s = file_of(m, path, e, &t->file);
  if (s != OK) return s;
  int64_t all = (int64_t)m->files[t->file].n;
  if (!number(r->offset, &offset) || !number(r->length, &length))
    return onnx_bad(m, e, "tensor `%.200s`: its external offset or length is no number", t->name);
  if (r->length && length != need)
    return onnx_bad(m, e, "tensor `%.200s` needs %lld bytes, and its external data has %lld", t->name, (long long)need, (long long)length);
  if (offset > all || need > all - offset)
    return onnx_bad(m, e, "tensor `%.200s`: %lld bytes from %lld of %.200s, which has %lld", t->name, (long long)need, (long long)offset, r->file,
                    (long long)all);
  t->raw = m->files[t->file].p ? m->files[t->file].p + offset : NULL, t->offset = offset;
  return OK;
}

// ---- elements ----

static int from_list(struct onnx_model *m, const struct onnx_ints *list, struct onnx_tensor *t, int64_t count, struct err *e)
{
  int each = MAX(onnx_type_bits(t->type), 8) / 8;
  if ((size_t)list->n * (size_t)each != t->bytes)
    return onnx_bad(m, e, "tensor `%.200s` has %d numbers, and %lld elements", t->name, list->n, (long long)count);
  uint8_t *raw = arena_alloc(m->mem, t->bytes + 8);
  for (int i = 0; i < list->n; i++) memcpy(raw + (size_t)i * (size_t)each, &list->v[i], (size_t)each);
  t->raw = raw, t->file = -1;
  return OK;
}

static int from_bytes(struct onnx_model *m, struct onnx_bytes b, struct onnx_tensor *t, struct err *e)
{
  if (b.n != t->bytes) return onnx_bad(m, e, "tensor `%.200s` has %zu bytes, and needs %zu", t->name, b.n, t->bytes);
  const uint8_t *base = m->files[0].p;
  bool mapped = b.n && b.p >= base && b.p + b.n <= base + m->files[0].n;
  t->raw = b.p, t->file = mapped ? 0 : -1, t->offset = mapped ? b.p - base : 0;
  return OK;
}

static int elements(struct onnx_model *m, const struct read *r, struct onnx_tensor *t, struct err *e)
{
  int64_t count = onnx_elements(&t->shape);
  if (onnx_type_kind(t->type) == NEITHER) return t->raw = NULL, t->file = -1, OK; // its readers are unsupported, because of its type
  t->bytes = onnx_type_size(t->type, count);
  if (r->location == 1) return external(m, r, t, e);
  if (r->has_raw) return from_bytes(m, r->raw, t, e);
  if (r->loose.n && onnx_type_kind(t->type) == REAL) return from_list(m, &r->loose, t, count, e);
  if (t->type == ONNX_FLOAT) return from_bytes(m, r->f32, t, e);
  if (t->type == ONNX_DOUBLE) return from_bytes(m, r->f64, t, e);
  if (t->type == ONNX_INT64) return from_list(m, &r->i64, t, count, e);
  if (t->type == ONNX_UINT64 || t->type == ONNX_UINT32) return from_list(m, &r->u64, t, count, e);
  return from_list(m, &r->i32, t, count, e);
}

int64_t onnx_elements(const struct shape *s)
{
  int64_t n = 1;
  for (int i = 0; i < s->n; i++)
    if (!s->d[i]) return 0;
  for (int i = 0; i < s->n; i++)
    if (__builtin_mul_overflow(n, s->d[i], &n) || n >= (int64_t)1 << 40) return (int64_t)1 << 40;
  return n;
}

int onnx_read_tensor(struct onnx_model *m, struct onnx_bytes b, struct onnx_tensor *t, struct err *e)
{
  struct onnx_parse p = {.m = m, .e = e};
  struct read r = {.name = ""};
  int s = onnx_message(&p, b, fields, COUNT(fields), "TensorProto", &r);
  *t = (struct onnx_tensor){.name = r.name, .type = r.type, .file = -1};
  if (s != OK) return s;
  if (r.segment) return onnx_bad(m, e, "tensor `%.200s` comes in segments, which are not read", t->name);
  if (r.dims.n > MAX_DIMS) return onnx_bad(m, e, "tensor `%.200s` has %d dimensions; at most %d are read", t->name, r.dims.n, MAX_DIMS);
  t->shape.n = r.dims.n;
  for (int i = 0; i < r.dims.n; i++) {
    t->shape.d[i] = r.dims.v[i];
    if (t->shape.d[i] < 0) return onnx_bad(m, e, "tensor `%.200s` has a negative extent", t->name);
  }
  if (onnx_elements(&t->shape) >= (int64_t)1 << 40) return onnx_bad(m, e, "tensor `%.200s` would have 2^40 elements or more", t->name);
  return elements(m, &r, t, e);
}
