// Processes that share the searches of a job. Each reads the program separately. The first one's machine is the target of all, so that different
// hosts rank alike.
#include "drive/drive.h"

#include <string.h>

struct pledge {
  int status, threads;
  uint64_t asked; // hash of program and limits
  char build[16];
  struct target target;
};

static uint64_t hash_asked(const struct job *j)
{
  const struct mica_options *o = j->opts;
  struct str text = {0};
  graph_print(j->program, &text);
  str_add(&text, "%d %d %d %d %x %llu", o->max_block_ops, o->max_kernel_ops, o->max_part_ops, o->max_values, j->off, (unsigned long long)o->seed);
  uint64_t h = hash_bytes(str_text(&text), text.n, 0);
  str_free(&text);
  return h;
}

int job_agree(struct job *j, const struct crew *c, int status, struct err *e)
{
  struct pledge mine = {.status = status, .threads = j->threads, .target = j->target}, first, other;
  void **all = NEWS(j->mem, void *, c->size);
  size_t *n = NEWS(j->mem, size_t, c->size);
  if (status == OK) mine.asked = hash_asked(j);
  snprintf(mine.build, sizeof mine.build, "%s", build_fingerprint);
  c->gather(c->arg, &mine, sizeof mine, j->mem, all, n);
  for (int i = 0; i < c->size; i++) {
    if (n[i] != sizeof other) return err_set(e, ERR_LIBRARY, NOWHERE, "process %d runs another Mica", i);
    memcpy(&other, all[i], sizeof other);
    if (!i) first = other;
    if (memcmp(first.build, other.build, sizeof first.build)) return err_set(e, ERR_LIBRARY, NOWHERE, "process %d runs another Mica", i);
    if (status == OK && other.status != OK) return other.status;
    if (status == OK && first.asked != other.asked) return err_set(e, ERR_FILE, NOWHERE, "process %d has another program or other limits", i);
  }
  j->target = first.target, j->threads = first.threads, j->crew = c;
  return status;
}
