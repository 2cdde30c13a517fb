// Reads messages by tables of fields, and fields of simple types.
#include "onnx/message.h"
#include "onnx/onnx.h"

#include <string.h>

int onnx_bad(const struct onnx_model *m, struct err *e, const char *fmt, ...)
{
  char text[600];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return err_set(e, ERR_ONNX, (struct loc){m->path, 0, 0}, "%s", text);
}

int onnx_message(struct onnx_parse *r, struct onnx_bytes b, const struct onnx_field *fields, int n, const char *what, void *into)
{
  if (!b.n) return OK;
  struct onnx_wire w = {.p = b.p, .end = b.p + b.n};
  struct wire_field f;
  int s = OK;
  while (s == OK && wire_next(&w, &f)) {
    int i = 0;
    while (i < n && fields[i].number != f.number) i++;
    if (i == n) continue;
    if (fields[i].kind != WIRE_ANY && fields[i].kind != f.kind)
      return onnx_bad(r->m, r->e, "byte %lld: field %u of a %s has the wrong kind", onnx_place(r, w.p), f.number, what);
    s = fields[i].read(r, &f, (char *)into + fields[i].offset);
  }
  if (w.bad) return onnx_bad(r->m, r->e, "byte %lld: %s (%s)", onnx_place(r, w.p), w.bad, what);
  return s;
}

long long onnx_place(const struct onnx_parse *r, const uint8_t *p) { return (long long)(p - r->m->files[0].p); }

const char *onnx_text(struct onnx_model *m, struct onnx_bytes b, struct err *e)
{
  for (size_t i = 0; i < b.n; i++)
    if (b.p[i] < ' ' || b.p[i] == 127)
      return onnx_bad(m, e, "byte %lld: a name holds the byte 0x%02x", (long long)(b.p + i - m->files[0].p), b.p[i]), NULL;
  char *s = arena_alloc(m->mem, b.n + 1);
  memcpy(s, b.p ? b.p : (const uint8_t *)"", b.n);
  json_t *utf8 = json_string(s); // jansson takes well-formed UTF-8 only
  if (!utf8) return onnx_bad(m, e, "byte %lld: a name is not UTF-8", (long long)(b.p - m->files[0].p)), NULL;
  doc_done(utf8);
  return s;
}

int onnx_read_text(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  const char *s = onnx_text(r->m, f->bytes, r->e);
  *(const char **)into = s ? s : "";
  return s ? OK : USER;
}

int onnx_read_int64(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  (void)r;
  *(int64_t *)into = (int64_t)f->value;
  return OK;
}

int onnx_read_int(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  (void)r;
  *(int *)into = (int)(int64_t)f->value;
  return OK;
}

// Repeated integers: separate, or packed into bytes.
int onnx_read_ints(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_ints *x = into;
  uint64_t one = f->value;
  if (f->kind == WIRE_VARINT) return PUSH(r->m->mem, x->v, x->n, x->cap) = (int64_t)one, OK;
  if (f->kind != WIRE_BYTES) return onnx_bad(r->m, r->e, "a list of integers has the wrong kind");
  struct onnx_wire w = {.p = f->bytes.p, .end = f->bytes.p + f->bytes.n};
  while (w.p < w.end && wire_varint(&w, &one)) PUSH(r->m->mem, x->v, x->n, x->cap) = (int64_t)one;
  return w.bad ? onnx_bad(r->m, r->e, "byte %lld: %s (a list of integers)", onnx_place(r, w.p), w.bad) : OK;
}
