// Messages of protobuf by tables of their fields (model.c, tensor.c).
#ifndef MICA_ONNX_MESSAGE_H
#define MICA_ONNX_MESSAGE_H

#include "onnx/onnx.h"

struct onnx_parse {
  struct onnx_model *m;
  struct err *e;
  struct onnx_node *node; // the node whose attributes are read
  int depth;              // nesting of subgraphs
  bool graph;             // the model's graph has been read
};
struct onnx_field {
  uint32_t number;
  enum wire_kind kind;
  int (*read)(struct onnx_parse *r, const struct wire_field *f, void *into);
  size_t offset; // of the target in the message's struct
};
// Reads a message: each field of the table by its function. Other fields are skipped.
int onnx_message(struct onnx_parse *r, struct onnx_bytes b, const struct onnx_field *fields, int n, const char *what, void *into);
long long onnx_place(const struct onnx_parse *r, const uint8_t *p);               // offset in the file
int onnx_read_text(struct onnx_parse *r, const struct wire_field *f, void *into); // const char *
int onnx_read_int64(struct onnx_parse *r, const struct wire_field *f, void *into);
int onnx_read_int(struct onnx_parse *r, const struct wire_field *f, void *into);
int onnx_read_ints(struct onnx_parse *r, const struct wire_field *f, void *into);        // struct onnx_ints
int onnx_read_texts(struct onnx_parse *r, const struct wire_field *f, void *into);       // struct onnx_texts
int onnx_read_opset(struct onnx_parse *r, const struct wire_field *f, int64_t *version); // unchanged for another domain
int onnx_read_node(struct onnx_parse *r, const struct wire_field *f, struct onnx_node *n);
int onnx_read_attr(struct onnx_parse *r, const struct wire_field *f, struct onnx_attr *a);
int onnx_read_function(struct onnx_parse *r, const struct wire_field *f, void *into); // struct onnx_model

#endif
