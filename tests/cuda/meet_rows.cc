// The exchanges of meet_shim.h by the text of src/cuda/meet.cuh, or by one with a planted mistake.
#include "meet_shim.h"
#include MEET_TEXT

static const meet_room room = {MEET_ROOM_WORD, MEET_ROOM_SLOT};

template <class T, int HOW, int UNIT> static void run(const meet_world &w, const void *in, void *out, u32 count, u32 inner)
{
  meet<T, WORLD, HOW, UNIT>(w, room, in, out, count, inner);
}
#define ROW(T, HOW, UNIT) run<T, HOW, UNIT>,
meet_run *const meet_runs[] = {MEET_ROWS(ROW)};
