// The rows of node.def and simple.def, and attributes of nodes by name.
#include "onnx/onnx_lower.h"
#include "onnx/write.h"

#include <string.h>

#define onnx_as_NONE NULL
#define host_NONE NULL
const struct onnx_row onnx_rows[] = {
#define ONNX(type, since, least, most, lower, op, host, fn, without) \
  {"", #type, since, least, most, onnx_as_##lower, OP_##op, host_##host, FN_##fn, without, NULL},
#define MICROSOFT(type, since, least, most, lower, op, host, fn, without) \
  {"com.microsoft", #type, since, least, most, onnx_as_##lower, OP_##op, host_##host, FN_##fn, without, NULL},
#define WRITTEN(domain, type, since, least, most, how) {domain, #type, since, least, most, NULL, OP_ADD, NULL, FN_NONE, "", onnx_write_##how},
#define SIMPLE(type, since, least, most, host, fn, without) {"", #type, since, least, most, NULL, OP_ADD, host_##host, FN_##fn, without, NULL},
#define OTHER(domain, type, least, most, host, fn, without) {domain, #type, 0, least, most, NULL, OP_ADD, host_##host, FN_##fn, without, NULL},
#include "onnx/node.def"
#include "onnx/simple.def"
#undef SIMPLE
#undef OTHER
#undef ONNX
#undef MICROSOFT
#undef WRITTEN
};
const int onnx_row_count = COUNT(onnx_rows);

const struct onnx_row *onnx_row_find(const char *domain, const char *type)
{
  if (!strcmp(domain, "ai.onnx")) domain = "";
  for (int i = 0; i < onnx_row_count; i++)
    if (!strcmp(onnx_rows[i].type, type) && !strcmp(onnx_rows[i].domain, domain)) return &onnx_rows[i];
  return NULL;
}

bool onnx_domain_known(const char *domain)
{
  if (!strcmp(domain, "ai.onnx")) return true;
  for (int i = 0; i < onnx_row_count; i++)
    if (!strcmp(onnx_rows[i].domain, domain)) return true;
  return false;
}

const struct onnx_attr *onnx_attr(const struct onnx_node *n, const char *name)
{
  for (int i = 0; i < n->nattrs; i++)
    if (!strcmp(n->attrs[i].name, name)) return &n->attrs[i];
  return NULL;
}

int64_t onnx_attr_int(const struct onnx_node *n, const char *name, int64_t otherwise)
{
  const struct onnx_attr *a = onnx_attr(n, name);
  return a ? a->i : otherwise;
}

double onnx_attr_real(const struct onnx_node *n, const char *name, double otherwise)
{
  const struct onnx_attr *a = onnx_attr(n, name);
  return a ? a->f : otherwise;
}

const char *onnx_attr_text(const struct onnx_node *n, const char *name, const char *otherwise)
{
  const struct onnx_attr *a = onnx_attr(n, name);
  return a && a->s ? a->s : otherwise;
}
