// Protobuf's wire format (protobuf.dev/programming-guides/encoding): a message is a sequence of fields, each a number
// and a kind in one varint, then a value. Groups, which no message of ONNX has, are refused.
#include "onnx/onnx.h"

#include <string.h>

static bool bad(struct onnx_wire *w, const char *why)
{
  w->bad = why;
  return false;
}

bool wire_varint(struct onnx_wire *w, uint64_t *x)
{
  *x = 0;
  for (int i = 0; i < 10 && w->p < w->end; i++) {
    uint8_t b = *w->p++;
    if (i == 9 && b > 1) break;
    *x |= (uint64_t)(b & 127) << (7 * i);
    if (!(b & 128)) return true;
  }
  return bad(w, w->p < w->end ? "an integer of more than 64 bits" : "it ends inside an integer");
}

static bool fixed(struct onnx_wire *w, size_t bytes, uint64_t *x)
{
  if ((size_t)(w->end - w->p) < bytes) return bad(w, "it ends inside a number");
  *x = 0;
  for (size_t i = 0; i < bytes; i++) *x |= (uint64_t)w->p[i] << (8 * i);
  w->p += bytes;
  return true;
}

static bool bytes(struct onnx_wire *w, struct onnx_bytes *b)
{
  uint64_t n;
  if (!wire_varint(w, &n)) return false;
  if (n > (size_t)(w->end - w->p)) return bad(w, "a length goes past the end");
  *b = (struct onnx_bytes){w->p, (size_t)n};
  w->p += n;
  return true;
}

bool wire_next(struct onnx_wire *w, struct wire_field *f)
{
  uint64_t key;
  if (w->bad || w->p == w->end) return false;
  if (!wire_varint(w, &key)) return false;
  *f = (struct wire_field){.number = (uint32_t)(key >> 3), .kind = (enum wire_kind)(key & 7)};
  if (key >> 3 == 0 || key >> 3 >= 1u << 29) return bad(w, "a field without a number");
  if (f->kind == WIRE_VARINT) return wire_varint(w, &f->value);
  if (f->kind == WIRE_64) return fixed(w, 8, &f->value);
  if (f->kind == WIRE_32) return fixed(w, 4, &f->value);
  if (f->kind == WIRE_BYTES) return bytes(w, &f->bytes);
  return bad(w, "a field of a kind that ONNX does not use");
}
