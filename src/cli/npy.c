// numpy's array files (format 1.0). Reads arrays with the dtypes of programs and f8 in C order, writes f8. For ONNX models it also reads integers,
// bools and empty arrays.
#include "cli/cli.h"
#include "onnx/onnx.h"

#include <stdlib.h>
#include <string.h>

static int bad(struct err *e, const char *path, const char *what)
{
  err_set(e, ERR_OPTION, NOWHERE, "%s %s", path, what);
  err_hint(e, "save it with numpy.save from an array of float16, bfloat16 (ml_dtypes), float32 or float64 in C order");
  return USER;
}

// Extents of at least `least`. Their product stays below MOST, even if one of them is 0.
static bool header_shape(const char *header, int64_t least, struct shape *s)
{
  static const int64_t MOST = (int64_t)1 << 40;
  int64_t all = 1;
  const char *p = strstr(header, "'shape':");
  p = p ? strchr(p, '(') : NULL;
  *s = (struct shape){0};
  for (p = p ? p + 1 : NULL; p && *p && *p != ')';) {
    char *end;
    long long d = strtoll(p, &end, 10);
    if (end == p || d < least || s->n == MAX_DIMS || d > MOST / all) return false;
    s->d[s->n++] = d, all *= MAX(d, 1);
    p = end + strspn(end, ", ");
  }
  return p && *p == ')';
}

// The type named by `'descr'`, by the typestr column of dtype.def; DTYPES: double, -1: none of these. numpy writes | if byte order is irrelevant, and
// ml_dtypes names its types as raw bytes.
static int element_type(const char *header)
{
  const char *descr = strstr(header, "'descr':");
  const char *name = descr ? strchr(descr + strlen("'descr':"), '\'') : NULL;
  if (!name || !strchr("<|", name[1])) return -1;
  for (int t = 0; t < DTYPES; t++)
    if (!strncmp(name + 2, num_rows[t].typestr + 1, 2) && name[4] == '\'') return t;
  return strncmp(name + 1, "<f8'", 4) ? -1 : (int)DTYPES;
}

// A file with its header: its text, and the start of the elements.
static int open_file(struct arena *mem, const char *path, char **text, size_t *n, const char **header, size_t *at, struct err *e)
{
  TRY(file_read(mem, path, text, n, e));
  if (*n < 10 || memcmp(*text, "\x93NUMPY\1\0", 8)) return bad(e, path, "is no numpy file of format 1.0");
  size_t head = (size_t)(unsigned char)(*text)[8] | (size_t)(unsigned char)(*text)[9] << 8;
  if (10 + head > *n) return bad(e, path, "ends in its header");
  *header = arena_printf(mem, "%.*s", (int)head, *text + 10), *at = 10 + head;
  return strstr(*header, "'fortran_order': True") ? bad(e, path, "is in Fortran order") : OK;
}

int npy_read(struct arena *mem, const char *path, struct shape *shape, double **data, struct err *e)
{
  char *text;
  const char *header;
  size_t n, at;
  TRY(open_file(mem, path, &text, &n, &header, &at, e));
  const int type = element_type(header);
  if (type < 0) return bad(e, path, "holds no floating-point numbers");
  if (!header_shape(header, 1, shape)) return bad(e, path, "has a shape that cannot be read");
  const size_t count = (size_t)shape_size(shape), bytes = type < (int)DTYPES ? (size_t)num_rows[type].bytes : sizeof(double);
  if ((n - at) / bytes != count) return bad(e, path, "does not have as many elements as its shape says");
  *data = NEWS(mem, double, count);
  if (type == (int)DTYPES) return memcpy(*data, text + at, count * sizeof(double)), OK;
  for (size_t i = 0; i < count; i++) (*data)[i] = num_read((enum dtype)type, text + at, (int64_t)i);
  return OK;
}

int npy_read_cells(struct arena *mem, const char *path, struct onnx_cells **out, struct err *e)
{
  static const struct {
    const char *descr;
    int type;
  } types[] = {{"'<f4'", ONNX_FLOAT},  {"'<f8'", ONNX_DOUBLE}, {"'<f2'", ONNX_FLOAT16},  {"'<i8'", ONNX_INT64},   {"'<i4'", ONNX_INT32},
               {"'<i2'", ONNX_INT16},  {"'|i1'", ONNX_INT8},   {"'|u1'", ONNX_UINT8},    {"'<u2'", ONNX_UINT16},  {"'<u4'", ONNX_UINT32},
               {"'<u8'", ONNX_UINT64}, {"'|b1'", ONNX_BOOL},   {"'<V2'", ONNX_BFLOAT16}, {"'|V2'", ONNX_BFLOAT16}};
  char *text;
  const char *header;
  size_t n, at, k = 0;
  struct shape s;
  TRY(open_file(mem, path, &text, &n, &header, &at, e));
  while (k < COUNT(types) && !strstr(header, types[k].descr)) k++;
  if (k == COUNT(types)) return bad(e, path, "holds neither numbers nor bools");
  if (!header_shape(header, 0, &s)) return bad(e, path, "has a shape that cannot be read");
  if (n - at != onnx_type_size(types[k].type, onnx_elements(&s))) return bad(e, path, "does not have as many elements as its shape says");
  *out = onnx_cells_new(mem, types[k].type, &s);
  onnx_cells_read(*out, (const uint8_t *)text + at);
  return OK;
}

static int write_file(const char *path, const struct shape *shape, const char *descr, const void *data, int64_t count, struct err *e)
{
  struct str s = {0}, dims = {0};
  for (int i = 0; i < shape->n; i++) str_add(&dims, "%lld,", (long long)shape->d[i]);
  str_raw(&s, "\x93NUMPY\1\0??", 10);
  str_add(&s, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, str_text(&dims));
  while ((s.n + 1) % 64) str_raw(&s, " ", 1);
  str_raw(&s, "\n", 1);
  s.p[8] = (char)((s.n - 10) & 255), s.p[9] = (char)((s.n - 10) >> 8);
  str_raw(&s, data, 8 * (size_t)count);
  int status = file_write(path, s.p, s.n, e);
  str_free(&s);
  str_free(&dims);
  return status;
}

int npy_write(const char *path, const struct shape *shape, const double *data, struct err *e)
{
  return write_file(path, shape, "<f8", data, shape_size(shape), e);
}

int npy_write_cells(const char *path, const struct onnx_cells *c, struct err *e)
{
  return write_file(path, &c->shape, onnx_type_kind(c->type) == REAL ? "<f8" : "<i8", c->p, onnx_elements(&c->shape), e);
}
