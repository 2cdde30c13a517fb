// Shared by the tests of the tile language: its files, and a parse with its arena.
#ifndef TEXTS_H
#define TEXTS_H

#include "tile/tile.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 64 };
struct texts {
  struct arena mem;
  int n;
  char *path[TEXTS], *text[TEXTS];
};

static inline int texts_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static inline bool texts_folder(struct texts *t, const char *folder)
{
  DIR *d = opendir(folder);
  if (!d) return false;
  int first = t->n;
  for (struct dirent *f; (f = readdir(d)) && t->n < TEXTS;) {
    const char *dot = strrchr(f->d_name, '.');
    if (dot && !strcmp(dot, ".tile")) t->path[t->n++] = arena_printf(&t->mem, "%s/%s", folder, f->d_name);
  }
  closedir(d);
  qsort(t->path + first, (size_t)(t->n - first), sizeof *t->path, texts_order); // the same order on every file system
  for (int i = first; i < t->n; i++) {
    struct err e = {0};
    size_t n;
    if (file_read(&t->mem, t->path[i], &t->text[i], &n, &e)) return err_print(stderr, &e), false;
  }
  return t->n > first;
}

static inline bool texts_all(struct texts *t)
{
  *t = (struct texts){0};
  return texts_folder(t, MICA_SOURCE_DIR "/kernels") && texts_folder(t, MICA_SOURCE_DIR "/tests/tile/notes");
}

#endif
