// Checks that the targets share.
#include "fuzz.h"

#include <string.h>

bool fuzz_broken(const char *what)
{
  fprintf(stderr, "broken: %s\n", what);
  return false;
}

bool fuzz_answer(int status, const struct graph *g, const struct err *e)
{
  if (status == OK) return (g && e->id == ERR_NONE) || fuzz_broken("no graph, and no error");
  if (e->id == ERR_NONE || !*e->text || !*e->hint) return fuzz_broken("an error that says nothing");
  return (int)e->status == status || fuzz_broken("the status is not the error's");
}

static bool text_again(struct arena *mem, const struct graph *g)
{
  struct str text = {0};
  struct err e = {0};
  struct graph *again = NULL;
  graph_print(g, &text);
  int status = front_parse(mem, str_text(&text), text.n, "printed", 0, NULL, &again, &e);
  bool good = status == OK ? graph_same(g, again) : e.id == ERR_LIMIT; // the text may be longer than its source
  if (!good) fprintf(stderr, "%s\n%s\n", e.text, str_text(&text));
  str_free(&text);
  return good || fuzz_broken("the printed graph reads as another one");
}

static bool json_again(struct arena *mem, const struct graph *g)
{
  struct str text = {0};
  struct err e = {0};
  struct graph *again = NULL;
  graph_to_json(g, &text);
  int status = graph_from_json(mem, str_text(&text), text.n, "printed", &again, &e);
  bool good = status == OK ? graph_same(g, again) && graph_hash(g) == graph_hash(again) : e.id == ERR_LIMIT;
  if (!good) fprintf(stderr, "%s\n", e.text);
  str_free(&text);
  return good || fuzz_broken("the graph's JSON reads as another one");
}

bool fuzz_graph(struct arena *mem, const struct graph *g)
{
  struct err e = {0};
  struct str drawn = {0};
  struct graph *plain;
  if (graph_check(g, &e) != OK) return fuzz_broken("an ill-formed graph was read");
  graph_draw(g, &drawn);
  str_free(&drawn);
  for (int stable = 0; stable < 2; stable++) {
    struct err x = {0};
    int status = graph_expand(mem, g, stable, &plain, &x);
    if (!fuzz_answer(status, status == OK ? plain : NULL, &x)) return false;
  }
  return text_again(mem, g) && json_again(mem, g);
}
