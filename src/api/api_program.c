// include/mica.h: inputs and outputs of programs.
#include "api/api.h"

#include <string.h>

#define DTYPE(id, ...) _Static_assert((int)MICA_##id == (int)id, "dtypes of the interface");
#define WHOLE DTYPE
#include "base/dtype.def"
_Static_assert((int)MICA_MAX_DIMS == MAX_DIMS && (int)MICA_MAX_GRID == MAX_GRID && (int)MICA_MAX_LOOPS == MAX_LOOPS, "limits of the interface");
_Static_assert((int)MICA_REPLICA == REPLICA, "maps of the interface");

struct mica_tensor tensor_tell(const struct tensor *t)
{
  struct mica_tensor x = {.name = t->name ? t->name : "", .dtype = (enum mica_dtype)t->dtype, .ndim = t->shape.n};
  for (int i = 0; i < t->shape.n; i++) x.shape[i] = t->shape.d[i];
  if (num_whole(t->dtype)) x.least = t->range.least, x.most = t->range.most, x.distinct = t->range.distinct;
  x.frozen = t->frozen;
  return x;
}

// The i-th node with this operator, or NULL.
static const struct node *node_of(const struct graph *g, enum op op, int i)
{
  for (int k = 0; k < g->nnodes && i >= 0; k++)
    if (g->nodes[k].op == op && !i--) return &g->nodes[k];
  return NULL;
}

// The i-th input or output of a program.
static struct mica_tensor find(const struct graph *g, enum op op, int i)
{
  const struct node *n = node_of(g, op, i);
  if (!n) return (struct mica_tensor){.name = ""};
  const int at = op == OP_INPUT ? n->out : n->in[0];
  struct tensor t = g->tensors[at];
  t.shape = op == OP_INPUT ? graph_whole(g, at) : output_whole(g, n);
  struct mica_tensor x = tensor_tell(&t);
  if (op == OP_INPUT ? t.state : state_output(g, n)) x.state = 1 + state_number(g, at);
  return x;
}

const char *mica_program_name(const struct mica_program *p) { return p->g->name ? p->g->name : "program"; }
int mica_program_inputs(const struct mica_program *p) { return graph_inputs(p->g, NULL); }
int mica_program_outputs(const struct mica_program *p) { return graph_outputs(p->g, NULL); }
struct mica_tensor mica_program_input(const struct mica_program *p, int i) { return find(p->g, OP_INPUT, i); }
struct mica_tensor mica_program_output(const struct mica_program *p, int i) { return find(p->g, OP_OUTPUT, i); }

int mica_program_world(const struct mica_program *p) { return p->g->world; }

int mica_program_input_shard(const struct mica_program *p, int i)
{
  const struct node *n = node_of(p->g, OP_INPUT, i);
  return n ? input_shard(p->g, n->out) : -1;
}

int mica_program_output_shard(const struct mica_program *p, int i)
{
  const struct node *n = node_of(p->g, OP_OUTPUT, i);
  return n ? output_shard(p->g, n) : -1;
}

static int print(struct mica_context *m, const struct mica_program *p, const char **text)
{
  struct str s = {0};
  graph_print(p->g, &s);
  *text = str_keep(&m->mem, &s);
  return OK;
}

int mica_program_text(struct mica_context *m, const struct mica_program *p, const char **text)
{
  int status;
  CALL(m, status, print(m, p, text));
  return status;
}
