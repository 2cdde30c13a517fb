// mica tile: loads programs in the tile language, with their parameters.
#include "cli/cli.h"
#include "tile/tile.h"

#include <stdlib.h>
#include <string.h>

int cli_tile_settings(struct cli *c, struct tile_setting **out)
{
  struct tile_setting *set = *out = NEWS(&c->mem, struct tile_setting, c->nset + 1);
  for (int i = 0; i < c->nset; i++) {
    const char *eq = strchr(c->set[i], '=');
    char *end = NULL;
    long long value = eq ? strtoll(eq + 1, &end, 10) : 0;
    if (!eq || eq == c->set[i] || end == eq + 1 || *end || llabs(value) > INT32_MAX)
      return err_set(&c->err, ERR_OPTION, NOWHERE, "--set takes NAME=VALUE with a 32-bit integer, not %.60s", c->set[i]);
    set[i] = (struct tile_setting){arena_printf(&c->mem, "%.*s", (int)(eq - c->set[i]), c->set[i]), value, false};
  }
  return OK;
}

int cli_load_tile_set(struct cli *c, const char *path, int nset, struct tile_setting *set, struct tile_program **p)
{
  char *text;
  size_t n;
  TRY(file_read(&c->mem, path, &text, &n, &c->err));
  if (strlen(text) != n) return err_set(&c->err, ERR_TILE, (struct loc){path, 0, 0}, "not a text file: a byte 0 inside");
  c->source = text, c->source_path = path;
  return tile_parse_set(&c->mem, path, text, nset, set, p, &c->err);
}

int cli_load_tile(struct cli *c, const char *path, struct tile_program **p)
{
  struct tile_setting *set;
  TRY(cli_tile_settings(c, &set));
  return cli_load_tile_set(c, path, c->nset, set, p);
}
