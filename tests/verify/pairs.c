// A pair from its seed: drawn at full extents and printed, drawn again at small ones and computed.
#include "pairs.h"

const struct kind pair_kinds[KINDS] = {
#define KIND(id, name, equal, beyond, make, doc) {#name, equal, beyond, make, doc},
#include "pairs.def"
#undef KIND
};

static struct pair make(struct arena *mem, enum kind_id k, uint64_t seed, int heavy, bool truth)
{
  struct pair p = {.dtype = "f32"};
  struct gen g = {.mem = mem, .r = {hash_mix(seed, k)}, .truth = truth, .p = &p};
  bool half = draw(&g, 8) == 0, add = draw(&g, 100) < heavy;
  pair_kinds[k].make(&g, k);
  if (add && p.n) draw_heavy(&g);
  if (half && !g.extreme) p.dtype = draw(&g, 2) ? "f16" : "bf16";
  return p;
}

bool pair_draw(enum kind_id k, uint64_t seed, int heavy, struct str text[2])
{
  struct arena mem = {0};
  struct pair full = make(&mem, k, seed, heavy, false);
  enum truth truth = full.truth;
  if (full.written) {
    text[0] = full.text[0], text[1] = full.text[1];
  } else if (full.n) {
    struct pair small = make(&mem, k, seed, heavy, true);
    truth = pair_truth(&mem, &small, seed);
    pair_text(&full, false, &text[0]), pair_text(&full, true, &text[1]);
  } else {
    truth = TRUTH_UNCLEAR;
  }
  arena_close(&mem);
  return truth == (pair_kinds[k].equal ? TRUTH_EQUAL : TRUTH_DIFFERENT);
}
