// numpy's array files (format 1.0): arrays of f2, f4 and f8 in C order are read, f8 is written.
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static int bad(struct err *e, const char *path, const char *what)
{
  err_set(e, ERR_OPTION, NOWHERE, "%s %s", path, what);
  err_hint(e, "save it with numpy.save from an array of float16, float32 or float64 in C order");
  return USER;
}

static bool header_shape(const char *header, struct shape *s)
{
  const char *p = strstr(header, "'shape':");
  p = p ? strchr(p, '(') : NULL;
  *s = (struct shape){0};
  for (p = p ? p + 1 : NULL; p && *p && *p != ')';) {
    char *end;
    long long d = strtoll(p, &end, 10);
    if (end == p || d < 1 || s->n == MAX_DIMS || d > ((int64_t)1 << 40)) return false;
    s->d[s->n++] = d;
    p = end + strspn(end, ", ");
  }
  return p && *p == ')';
}

static double element(const char *p, int bytes)
{
  _Float16 h;
  float f;
  double d;
  if (bytes == 2) return memcpy(&h, p, 2), (double)h;
  if (bytes == 4) return memcpy(&f, p, 4), (double)f;
  return memcpy(&d, p, 8), d;
}

int npy_read(struct arena *mem, const char *path, struct shape *shape, double **data, struct err *e)
{
  char *text;
  size_t n;
  TRY(file_read(mem, path, &text, &n, e));
  if (n < 10 || memcmp(text, "\x93NUMPY\1\0", 8)) return bad(e, path, "is no numpy file of format 1.0");
  size_t head = (size_t)(unsigned char)text[8] | (size_t)(unsigned char)text[9] << 8;
  if (10 + head > n) return bad(e, path, "ends in its header");
  const char *header = arena_printf(mem, "%.*s", (int)head, text + 10), *descr = strstr(header, "'<f");
  int bytes = descr ? descr[3] - '0' : 0;
  if (bytes != 2 && bytes != 4 && bytes != 8) return bad(e, path, "holds no floating-point numbers");
  if (strstr(header, "'fortran_order': True")) return bad(e, path, "is in Fortran order");
  if (!header_shape(header, shape)) return bad(e, path, "has a shape that cannot be read");
  size_t count = (size_t)shape_size(shape);
  if ((n - 10 - head) / (size_t)bytes != count) return bad(e, path, "does not have as many elements as its shape says");
  *data = NEWS(mem, double, count);
  for (size_t i = 0; i < count; i++) (*data)[i] = element(text + 10 + head + i * (size_t)bytes, bytes);
  return OK;
}

int npy_write(const char *path, const struct shape *shape, const double *data, struct err *e)
{
  struct str s = {0}, dims = {0};
  for (int i = 0; i < shape->n; i++) str_add(&dims, "%lld,", (long long)shape->d[i]);
  str_raw(&s, "\x93NUMPY\1\0??", 10);
  str_add(&s, "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }", str_text(&dims));
  while ((s.n + 1) % 64) str_raw(&s, " ", 1);
  str_raw(&s, "\n", 1);
  s.p[8] = (char)((s.n - 10) & 255), s.p[9] = (char)((s.n - 10) >> 8);
  str_raw(&s, (const char *)data, sizeof(double) * (size_t)shape_size(shape));
  int status = file_write(path, s.p, s.n, e);
  str_free(&s);
  str_free(&dims);
  return status;
}
