// Prints the kernels of collective operators: calls of the templates in meet.cuh with the shape as constants.
#include "cuda/cuda.h"

enum { ALIGN = 256, LARGEST_UNIT = 16 };                  // bytes
static const int64_t SMALL = 768 << 10, MOST = INT32_MAX; // most bytes that a rank sends as words; most elements of a whole tensor

static const char *const hows[] = {[MEETING_SUM] = "MEETING_SUM", [MEETING_GATHER] = "MEETING_GATHER", [MEETING_SCATTER] = "MEETING_SCATTER"};

static int64_t count(const struct meeting *m) { return m->outer * m->inner; }
static int bytes(const struct meeting *m) { return tile_types[m->type].bytes; }
static int64_t round_up(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

bool meeting_fits(const struct meeting *m)
{
  const bool sums = m->how != MEETING_GATHER && (m->type == TT_BOOL || m->type == TT_F64 || m->type == TT_U32);
  return m->ranks >= 2 && m->ranks <= MEETING_MOST_RANKS && m->type != TT_MBAR && !sums && m->outer >= 1 && m->inner >= 1 &&
         m->inner <= MOST / m->outer / m->ranks;
}

int64_t meeting_bytes(const struct meeting *m) { return count(m) * bytes(m) * (m->how == MEETING_SCATTER ? m->ranks : 1); }

bool meeting_small(const struct meeting *m) { return count(m) * bytes(m) * (m->ranks - 1) <= SMALL; }

// Elements per load and store of large data; 0 for small data.
static int unit(const struct meeting *m)
{
  int n = LARGEST_UNIT / bytes(m);
  while (m->inner % n) n /= 2;
  return meeting_small(m) ? 0 : n;
}

static int64_t words(const struct meeting *m) { return (count(m) + MEETING_DATA / bytes(m) - 1) / (MEETING_DATA / bytes(m)); }

static int64_t parts(const struct meeting *m) { return m->how == MEETING_SUM ? m->ranks : 1; } // parts of an operand, of which a slot has one

int64_t meeting_blocks(const struct meeting *m, int processors)
{
  const int64_t n = meeting_small(m) ? words(m) : count(m) / unit(m) / parts(m);
  return MAX(1, MIN(MIN(processors, MEETING_MOST_BLOCKS), n / MEETING_THREADS + (n % MEETING_THREADS != 0)));
}

void meeting_room(const struct meeting *m, struct meeting_room *room)
{
  const int64_t part = round_up(count(m) * bytes(m) / parts(m) + LARGEST_UNIT, ALIGN);
  if (meeting_small(m)) {
    room->word = MAX(room->word, round_up(words(m) * MEETING_WORD, ALIGN));
    return;
  }
  room->slot = MAX(room->slot, part);
  if (m->how == MEETING_SUM) room->sums = MAX(room->sums, round_up(count(m) * bytes(m), ALIGN));
}

int64_t meeting_memory(int ranks, const struct meeting_room *room) { return MEETING_HEAD + 2 * ranks * (room->word + room->slot) + room->sums; }

// The element type of the kernel. Elements that are only copied are unsigned integers of the same size.
static const char *type_text(const struct meeting *m)
{
  const int n = bytes(m);
  if (m->how != MEETING_GATHER) return m->type == TT_I64 ? "i64" : tile_types[m->type].cuda;
  return n == 1 ? "u8" : n == 2 ? "u16" : n == 4 ? "u32" : "u64";
}

void meeting_print(const struct meeting *m, const struct meeting_room *room, const char *name, struct str *out)
{
  const char *type = type_text(m);
  str_add(out, "%s\n%s\n", cuda_prelude_text, cuda_meet_text);
  str_add(out, "extern \"C\" __global__ void __launch_bounds__(MEET_THREADS) %s(const void *x, void *y, const __grid_constant__ meet_world w)\n{\n",
          name);
  str_add(out, "  meet<%s, %d, %s, %d>(w, {%lld, %lld}, x, y, %lld, %lld);\n}\n", type, m->ranks, hows[m->how], unit(m), (long long)room->word,
          (long long)room->slot, (long long)count(m), (long long)m->inner);
  str_add(out, "extern \"C\" __global__ void __launch_bounds__(MEET_THREADS) %s_local(const void *all, void *y, int rank)\n{\n", name);
  str_add(out, "  meet_local<%s, %d, %s>(all, y, rank, %lld, %lld);\n}\n", type, m->ranks, hows[m->how], (long long)count(m), (long long)m->inner);
}
