// Functions of a model (FunctionProto). Every node that calls one is replaced by the function's nodes, before names are resolved. Names inside a call
// are prefixed with the call's name. The depth of calls and the number of nodes are limited, because a small file can otherwise ask for unlimited
// memory. A function that calls itself is refused.
#include "onnx/message.h"

#include <string.h>

enum { DEEPEST_CALL = 32, MOST_PARAMETERS = 4096 };

struct onnx_function {
  const char *name, *domain, *overload;
  struct onnx_texts in, out; // parameters of the function
  struct onnx_node *nodes;
  struct onnx_attr *attrs; // default values of attributes
  int nnodes, nodes_cap, nattrs, attrs_cap;
  int64_t opset; // of the default domain; 0: the model's
};

// ---- reading ----

static int read_function_node(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_function *fn = into;
  struct onnx_node n;
  if (fn->nnodes == ONNX_NODES) return onnx_bad(r->m, r->e, "a function has more than %d nodes", ONNX_NODES);
  int s = onnx_read_node(r, f, &n);
  if (s == OK) PUSH(r->m->mem, fn->nodes, fn->nnodes, fn->nodes_cap) = n;
  return s;
}

static int read_default(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_function *fn = into;
  struct onnx_node nobody = {.name = ""}; // names of its nodes come from it
  r->node = &nobody;
  int s = onnx_read_attr(r, f, &PUSH(r->m->mem, fn->attrs, fn->nattrs, fn->attrs_cap));
  r->node = NULL;
  return s;
}

static int read_function_opset(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  return onnx_read_opset(r, f, &((struct onnx_function *)into)->opset);
}

static const struct onnx_field function_fields[] = {
    {1, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_function, name)},
    {4, WIRE_BYTES, onnx_read_texts, offsetof(struct onnx_function, in)},
    {5, WIRE_BYTES, onnx_read_texts, offsetof(struct onnx_function, out)},
    {7, WIRE_BYTES, read_function_node, 0},
    {9, WIRE_BYTES, read_function_opset, 0},
    {10, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_function, domain)},
    {11, WIRE_BYTES, read_default, 0},
    {13, WIRE_BYTES, onnx_read_text, offsetof(struct onnx_function, overload)},
};

static const struct onnx_function *find(const struct onnx_model *m, const struct onnx_node *n)
{
  for (int i = 0; i < m->nfunctions; i++) {
    const struct onnx_function *f = &m->functions[i];
    if (!strcmp(f->name, n->type) && !strcmp(f->domain, n->domain) && !strcmp(f->overload, n->overload)) return f;
  }
  return NULL;
}

int onnx_read_function(struct onnx_parse *r, const struct wire_field *f, void *into)
{
  struct onnx_model *m = into;
  struct onnx_function fn = {.name = "", .domain = "", .overload = ""};
  if (m->nfunctions == ONNX_FUNCTIONS) return onnx_bad(m, r->e, "the model has more than %d functions", ONNX_FUNCTIONS);
  int s = onnx_message(r, f->bytes, function_fields, COUNT(function_fields), "FunctionProto", &fn);
  if (s != OK) return s;
  if (fn.in.n > MOST_PARAMETERS || fn.out.n > MOST_PARAMETERS)
    return onnx_bad(m, r->e, "the function %.100s has more than %d inputs or outputs", fn.name, MOST_PARAMETERS);
  if (find(m, &(struct onnx_node){.type = fn.name, .domain = fn.domain, .overload = fn.overload}))
    return onnx_bad(m, r->e, "there are two functions %.100s.%.100s", fn.domain, fn.name);
  PUSH(m->mem, m->functions, m->nfunctions, m->functions_cap) = fn;
  return OK;
}

// ---- inlining ----

struct function_call { // NULL: the model's graph
  const struct onnx_function *fn;
  const struct onnx_node *node; // its names are already names of the model's graph
  const char *prefix;
  const struct function_call *above;
};
struct inliner {
  struct onnx_model *m;
  struct err *e;
  struct onnx_node *nodes;        // nodes written so far
  int nnodes, cap, looked, calls; // looked: nodes examined, including calls
};

static int write_nodes(struct inliner *w, const struct onnx_node *nodes, int n, const struct function_call *c);

static int index_of(const struct onnx_texts *list, const char *name)
{
  for (int i = 0; i < list->n; i++)
    if (!strcmp(list->v[i], name)) return i;
  return -1;
}

// The name in the model's graph for a name in the function. A parameter that the call omits is "" as an input; as an output it gets a name that is
// not read.
static const char *outer(struct inliner *w, const struct function_call *c, const char *name)
{
  if (!c || !*name) return name;
  int in = index_of(&c->fn->in, name), out = index_of(&c->fn->out, name);
  if (in >= 0) return in < c->node->nin ? c->node->in_name[in] : "";
  if (out >= 0 && out < c->node->nout && *c->node->out_name[out]) return c->node->out_name[out];
  return arena_printf(w->m->mem, "%s/%s", c->prefix, name);
}

static void rename_all(struct inliner *w, const struct function_call *c, const char ***names, int n)
{
  const char **to = NEWS(w->m->mem, const char *, n + 1);
  for (int i = 0; i < n; i++) to[i] = outer(w, c, (*names)[i]);
  *names = to;
}

static const struct onnx_attr *named(const struct onnx_attr *a, int n, const char *name)
{
  for (int i = 0; i < n; i++)
    if (!strcmp(a[i].name, name)) return &a[i];
  return NULL;
}

// Attributes that refer to an attribute of the function take the call's value, else the function's default; else they are absent.
static void fill_attrs(struct inliner *w, const struct function_call *c, struct onnx_node *n)
{
  struct onnx_attr *to = NEWS(w->m->mem, struct onnx_attr, n->nattrs + 1);
  int k = 0;
  for (int i = 0; i < n->nattrs; i++) {
    const struct onnx_attr *a = &n->attrs[i], *value = a;
    if (*a->ref) value = named(c->node->attrs, c->node->nattrs, a->ref);
    if (*a->ref && !value) value = named(c->fn->attrs, c->fn->nattrs, a->ref);
    if (!value) continue;
    to[k] = *value, to[k].name = a->name, to[k].ref = "", k++;
  }
  n->attrs = to, n->nattrs = n->attrs_cap = k;
}

static const char *title(struct inliner *w, const struct onnx_function *f)
{
  return arena_printf(w->m->mem, *f->domain ? "%.60s.%.60s" : "%.0s%.60s", f->domain, f->name);
}

static int refuse_recursion(struct inliner *w, const struct onnx_function *f, const struct function_call *c)
{
  const char *way = title(w, f);
  for (; c; c = c->above) {
    way = arena_printf(w->m->mem, "%s -> %.300s", title(w, c->fn), way);
    if (c->fn == f) break;
  }
  return onnx_bad(w->m, w->e, "the function %s calls itself: %.400s", title(w, f), way);
}

static bool calls(const struct function_call *c, const struct onnx_function *f)
{
  for (; c; c = c->above)
    if (c->fn == f) return true;
  return false;
}

// An output of the function that is also one of its inputs gets a node of its own.
static void pass_through(struct inliner *w, const struct function_call *c)
{
  for (int k = 0; k < c->fn->out.n; k++) {
    int in = index_of(&c->fn->in, c->fn->out.v[k]);
    if (in < 0 || k >= c->node->nout || !*c->node->out_name[k]) continue;
    const char *from = c->fn->out.v[k], *to = c->node->out_name[k];
    struct onnx_node n = {.name = c->prefix, .type = "Identity", .domain = "", .overload = "", .into = -1, .group = -1, .opset = w->m->opset};
    n.nin = n.nout = 1, n.in_name = arena_copy(w->m->mem, &from, sizeof from), n.out_name = arena_copy(w->m->mem, &to, sizeof to);
    n.in_name[0] = outer(w, c, from);
    PUSH(w->m->mem, w->nodes, w->nnodes, w->cap) = n;
  }
}

static int write_call(struct inliner *w, const struct onnx_function *f, const struct onnx_node *n, const struct function_call *above)
{
  int depth = 1;
  for (const struct function_call *c = above; c; c = c->above) depth++;
  if (calls(above, f)) return refuse_recursion(w, f, above);
  if (depth > DEEPEST_CALL) return onnx_bad(w->m, w->e, "functions call one another more than %d deep, in %s", DEEPEST_CALL, title(w, f));
  if (n->nin > f->in.n || n->nout > f->out.n)
    return onnx_bad(w->m, w->e, "node \"%.100s\" calls %s with %d inputs and %d outputs, and it has %d and %d", n->name, title(w, f), n->nin, n->nout,
                    f->in.n, f->out.n);
  const char *name = *n->name ? n->name : n->type;
  struct function_call c = {f, n, arena_printf(w->m->mem, "%.200s.%d", name, ++w->calls), above};
  int s = write_nodes(w, f->nodes, f->nnodes, &c);
  if (s == OK) pass_through(w, &c);
  return s;
}

static int write_nodes(struct inliner *w, const struct onnx_node *nodes, int count, const struct function_call *c)
{
  int s = OK;
  for (int i = 0; i < count && s == OK; i++) {
    struct onnx_node n = nodes[i];
    const struct onnx_function *f = find(w->m, &n);
    if (w->looked++ == ONNX_NODES || w->nnodes >= ONNX_NODES)
      return onnx_bad(w->m, w->e, "with its functions written out the graph has more than %d nodes", ONNX_NODES);
    n.opset = c && c->fn->opset ? c->fn->opset : w->m->opset;
    if (c) {
      rename_all(w, c, &n.in_name, n.nin), rename_all(w, c, &n.out_name, n.nout);
      n.captured_as = n.captured;
      rename_all(w, c, &n.captured, n.ncaptured);
      fill_attrs(w, c, &n);
      n.name = arena_printf(w->m->mem, "%s/%.100s", c->prefix, *n.name ? n.name : n.type);
    }
    if (f)
      s = write_call(w, f, &n, c);
    else
      PUSH(w->m->mem, w->nodes, w->nnodes, w->cap) = n;
  }
  return s;
}

int onnx_inline(struct onnx_model *m, struct err *e)
{
  struct inliner w = {.m = m, .e = e};
  int s = write_nodes(&w, m->nodes, m->nnodes, NULL);
  m->nodes = w.nodes, m->nnodes = w.nnodes, m->nodes_cap = w.cap;
  return s;
}
