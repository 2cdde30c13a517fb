// Support code that only some dtypes need: loads and stores of small ones and of integers, a line of macros for each dtype, and products of bf16.
#include "gen/emit.h"

extern const char gen_small_text[], gen_pairs_text[]; // mica_cpu_small.h; mica_cpu_tiles.h and mica_cpu_pairs.h, embedded by the build

// Prints loads and stores of the graph's dtypes that mica_cpu.h lacks.
void small_print(const struct graph *g, struct str *source)
{
  bool any = false;
  for (int t = 0; t < DTYPES; t++) {
    const struct num_row *f = &num_rows[t];
    bool has = false;
    for (int i = 0; i < g->ntensors; i++) has |= g->tensors[i].dtype == (enum dtype)t;
    bool whole = num_whole((enum dtype)t);
    if (has && t == BF16) str_add(source, "%s\n", gen_pairs_text);
    if (!has || (f->bits != 8 && !whole)) continue;
    if (!any) str_add(source, "%s\n%s\n", float_bits_text, gen_small_text);
    any = true;
    if (whole)
      str_add(source, "M_WHOLE(%s, %s, %d)\n", f->dtype, f->c, f->bits == 8);
    else
      str_add(source, "M_SMALL(%s, %d, %d, %d)\n", f->dtype, f->exponent, f->mantissa, f->special);
  }
}
