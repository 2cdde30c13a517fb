// Schedules as text: the dimensions over which the axes of each kernel run.
#include "ir/ir.h"

#include <string.h>

// Extent of the axis x, y, z, i, j, k or l; 0 if the graph has no such axis.
static int64_t extent_of(const struct graph *g, char axis)
{
  if (axis >= 'x' && axis - 'x' < g->ngrid) return g->grid[axis - 'x'];
  return axis >= 'i' && axis - 'i' < g->nloop ? g->loop[axis - 'i'] : 0;
}

static const struct graph *next_block(const struct graph *g, int *node)
{
  while (*node < g->nnodes && !g->nodes[*node].sub) ++*node;
  return *node < g->nnodes ? g->nodes[(*node)++].sub : NULL;
}

void graph_schedule(const struct graph *g, const char *schedule, struct str *out)
{
  const struct graph *block = NULL;
  int node = 0;
  for (const char *word = schedule, *end; *word; word = end) {
    end = word + strcspn(word, " ");
    if (end - word == 4 && !memcmp(word, "grid", 4)) block = next_block(g, &node);
    str_add(out, "%.*s", (int)(end - word), word);
    int64_t extent = block && word[0] && word[1] == '=' ? extent_of(block, word[0]) : 0;
    if (extent) str_add(out, ":%lld", (long long)extent);
    for (; *end == ' '; end++) str_add(out, " ");
  }
}
