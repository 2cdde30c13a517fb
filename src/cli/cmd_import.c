// mica import: reads files of other tools. import_onnx.c has models in the ONNX format. Graphs of Mirage are converted, and verified against a
// program if one is given.
#include "cli/cli.h"
#include "front/front.h"

#include <string.h>

enum { MOST_INPUTS = 16 };

int cli_load_mirage(struct cli *c, const char *path, struct graph ***g, int *n)
{
  enum dtype t = F16;
  char *text;
  size_t bytes;
  if (c->dtype) TRY(dtype_read(c->dtype, &t, &c->err));
  TRY(file_read(&c->mem, path, &text, &bytes, &c->err));
  return front_mirage(&c->mem, text, bytes, path, t, g, n, &c->err);
}

// ---- inputs have no names in such files: those of equal shape are permuted until the graph equals the program ----

struct import_matching {
  struct cli *c;
  const struct graph *program, *g, *found;
  int n, order[MOST_INPUTS], left; // left: permutations that may still be tried
};

// Chooses the position of input number i; the first choice is its own.
static bool match_from(struct import_matching *m, int i)
{
  if (i == m->n) {
    m->found = graph_reorder(&m->c->mem, m->g, m->order);
    return m->left-- > 0 && verify_filter(m->program, m->found, m->c->seed);
  }
  int in[MOST_INPUTS], own = m->order[i];
  graph_inputs(m->g, in);
  for (int k = i; k < m->n; k++) {
    if (!shape_eq(&m->g->tensors[in[own]].shape, &m->g->tensors[in[m->order[k]]].shape)) continue;
    m->order[i] = m->order[k], m->order[k] = own;
    if (match_from(m, i + 1)) return true;
    m->order[k] = m->order[i], m->order[i] = own;
  }
  return false;
}

struct graph *cli_match_inputs(struct cli *c, const struct graph *program, struct graph *g)
{
  struct import_matching m = {.c = c, .program = program, .g = g, .n = graph_inputs(g, NULL), .left = 120};
  if (m.n > MOST_INPUTS || graph_inputs(program, NULL) != m.n) return g;
  for (int i = 0; i < m.n; i++) m.order[i] = i;
  return match_from(&m, 0) ? (struct graph *)m.found : g;
}

// ---- one graph ----

static int most_block_ops(const struct graph *g)
{
  int most = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) most = MAX(most, graph_ops(g->nodes[i].sub));
  return most;
}

static void print_one(const struct graph *g, int i, const json_t *v)
{
  const json_t *cert = json_object_get(v, "certificate");
  struct str text = {0};
  int kernels = graph_ops(g);
  printf("%d. %d kernel%s, %d block operators", i + 1, kernels, kernels == 1 ? "" : "s", most_block_ops(g));
  if (cert && json_is_true(json_object_get(cert, "equal")))
    printf("; equal (%s)", json_string_value(json_object_get(cert, "scope")));
  else if (cert)
    printf("; %s: %s", json_string_value(json_object_get(cert, "finding")), json_string_value(json_object_get(cert, "note")));
  graph_draw(g, &text);
  printf("\n%s\n", str_text(&text));
  str_free(&text);
}

static int save_one(struct cli *c, const struct graph *g, int i)
{
  struct str text = {0};
  graph_print(g, &text);
  int status = file_write(arena_printf(&c->mem, "%s/graph_%02d.mica", c->out, i + 1), str_text(&text), text.n, &c->err);
  str_free(&text);
  return status;
}

static int take(struct cli *c, const struct graph *program, struct graph *g, int i, json_t *list, int *equal)
{
  if (program) g = cli_match_inputs(c, program, g);
  json_t *v = json_pack("{s:i, s:i, s:o}", "kernels", graph_ops(g), "block_ops", most_block_ops(g), "graph", graph_json(g));
  json_array_append_new(list, v);
  if (program) {
    struct verify_opts o = {.seed = c->seed, .full_size_ops = CLI_FULL_OPS, .threads = cli_threads(c), .stop = cli_stop};
    struct certificate r = {0};
    TRY(verify_equal(program, g, &o, &r, &c->err));
    json_object_set_new(v, "certificate", certificate_json(&r));
    *equal += r.equal;
  }
  if (output_wants_text(c)) print_one(g, i, v);
  return c->out ? save_one(c, g, i) : OK;
}

static int answer(struct cli *c, const char *path, const char *against, const struct graph *program, struct graph *const *g, int n)
{
  json_t *list = json_array();
  json_t *root = json_pack("{s:s, s:i, s:s, s:i, s:o}", "mica", mica_version(), "schema", 1, "file", path, "found", n, "graphs", list);
  int status = OK, equal = 0;
  for (int i = 0; i < n && status == OK; i++) status = take(c, program, g[i], i, list, &equal);
  if (program) json_object_set_new(root, "equal", json_integer(equal));
  if (status == OK && program && output_wants_text(c)) printf("%d of %d equal %s\n", equal, n, against);
  if (status == OK) status = output_json(c, root);
  json_decref(root);
  return status != OK ? status : !program || equal == n ? OK : NO;
}

static int import_mirage(struct cli *c, const char *path, const char *against)
{
  struct graph *program = NULL, **g;
  int n;
  if (c->optimize) return err_set(&c->err, ERR_OPTION, NOWHERE, "--optimize takes a model in the format of ONNX");
  if (against) TRY(cli_load(c, against, &program));
  if (c->nset && !program) return err_set(&c->err, ERR_OPTION, NOWHERE, "--set needs a program to set it in");
  if (c->out) TRY(output_folder(c->out, &c->err));
  TRY(cli_load_mirage(c, path, &g, &n));
  return answer(c, path, against, program, g, n);
}

// The first bytes determine the file's format, unless it is given.
static bool begins_list(const char *path)
{
  FILE *f = fopen(path, "rb");
  int first = ' ';
  while (f && (first == ' ' || first == '\t' || first == '\r' || first == '\n')) first = getc(f);
  if (f) fclose(f);
  return first == '[';
}

int cmd_import(struct cli *c)
{
  bool mirage = !strcmp(c->args[0], "mirage"), onnx = !strcmp(c->args[0], "onnx"), said = c->nargs > 1 && (mirage || onnx);
  const char *path = c->args[said], *against = c->nargs > 1 + said ? c->args[1 + said] : NULL;
  if (c->nargs == 3 && !said) {
    err_set(&c->err, ERR_OPTION, NOWHERE, "there is no format `%.40s` to import", c->args[0]);
    err_hint(&c->err, "the formats are: onnx, mirage");
    return USER;
  }
  if (said ? mirage : begins_list(path)) return import_mirage(c, path, against);
  if (against) return err_set(&c->err, ERR_OPTION, NOWHERE, "an ONNX model cannot be compared with a program: %.200s", against);
  return cli_import_onnx(c, path, c->optimize);
}
