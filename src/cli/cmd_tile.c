// mica tile: kernels in the tile language (docs/tile.md). The first argument is a verb, a row of the table below.
#include "cli/cli.h"
#include "cuda/cuda.h"
#include "front/parse.h"
#include "tile/tile.h"

#include <stdlib.h>
#include <string.h>

static int print(struct cli *c, int nfiles, const char **files)
{
  struct str text = {0};
  for (int i = 0; i < nfiles; i++) {
    struct tile_program *p;
    TRY(cli_load_tile(c, files[i], &p));
    tile_text(p, &text);
  }
  if (output_wants_text(c)) fputs(str_text(&text), stdout);
  str_free(&text);
  return OK;
}

// Reads and lowers: every spec without a body gets an instruction of the target.
static int check_kernel(struct cli *c, struct tile_program *p, struct tile_kernel *k)
{
  int leaves = 0, arch = k->arch;
  for (int s = 0; s < k->nspecs; s++) leaves += !k->specs[s].decomposed;
  if (c->arch) TRY(cuda_arch_find(c->arch, &arch, &c->err));
  TRY(tile_lower(p, k, arch, &c->err));
  if (output_wants_text(c))
    printf("%s: %s: ok, %d specs, %d of them instructions, %lld bytes of shared memory\n", p->file, k->name, k->nspecs, leaves,
           (long long)k->shared_bytes);
  return OK;
}

static int check(struct cli *c, int nfiles, const char **files)
{
  for (int i = 0; i < nfiles; i++) {
    struct tile_program *p;
    TRY(cli_load_tile(c, files[i], &p));
    for (int j = 0; j < p->nkernels; j++) TRY(check_kernel(c, p, p->kernels[j]));
  }
  return OK;
}

static const struct verb {
  const char *name, *args;
  int (*run)(struct cli *c, int nfiles, const char **files);
} verbs[] = {
    {"check", "FILE...", check},
    {"print", "FILE...", print},
    {"emit", "FILE", cli_tile_emit},
    {"run", "FILE [NAME=FILE.npy|zero|random*SCALE]...", cli_tile_run},
    {"bench", "FILE.tile[,NAME=VALUE]...[,%BUFFER=SCALE]... or FILE.list, ...", cli_tile_bench},
};

int cmd_tile(struct cli *c)
{
  struct near near = near_start(c->args[0]);
  for (size_t i = 0; i < COUNT(verbs); i++) {
    if (!strcmp(verbs[i].name, c->args[0])) {
      if (c->nargs > 1) return verbs[i].run(c, c->nargs - 1, c->args + 1);
      return err_set(&c->err, ERR_OPTION, NOWHERE, "mica tile %s takes %s", verbs[i].name, verbs[i].args);
    }
    near_try(&near, verbs[i].name);
  }
  return option_unknown(c, "verb", c->args[0], near.best, "`mica help tile` has examples");
}
