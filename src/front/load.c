// Files are told apart by their content, so that their names do not matter.
#include "front/front.h"
#include "ir/constants.h"

#include <stdio.h>
#include <unistd.h>

static bool is_json(const char *text, size_t n)
{
  size_t i = 0;
  while (i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n')) i++;
  return i < n && text[i] == '{';
}

// Checks that final values of states are the last outputs: callers take the outputs before them as results.
static int states_last(const struct graph *g, struct err *e)
{
  bool states = false;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (states && n->op == OP_OUTPUT && !state_output(g, n)) return err_set(e, ERR_GRAPH, n->at, "an output after the final value of a state");
    states |= state_output(g, n);
  }
  return OK;
}

// If the path is a saved folder, adds a hint that names its graph file.
static void saved_hint(const char *path, struct err *e)
{
  char graph[4096 + 16];
  if ((size_t)snprintf(graph, sizeof graph, "%s/graph.mica", path) < sizeof graph && !access(graph, R_OK))
    err_hint(e, "it is a saved folder: its graph is in %.400s", graph);
}

int front_load(struct arena *mem, const char *path, int nset, const struct setting *set, struct graph **out, struct err *e)
{
  char *text;
  size_t n;
  int s = file_read(mem, path, &text, &n, e);
  if (s) return saved_hint(path, e), s;
  if (!is_json(text, n)) return front_parse(mem, text, n, path, nset, set, out, e);
  if (nset) return err_set(e, ERR_OPTION, (struct loc){path, 0, 0}, "a JSON graph has no parameters, so `%.64s` cannot be set", set[0].name);
  s = graph_from_json(mem, text, n, path, out, e);
  if (!s) s = states_last(*out, e);
  return s ? s : constants_check(*out, e);
}
