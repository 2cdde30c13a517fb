// Functions on saved folders for tests of modules. The folders are in the test's own folder.
#ifndef TESTS_API_SAVED_H
#define TESTS_API_SAVED_H

#include "api/api.h"
#include "export/package.h"
#include "base/own.h"
#include "folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static inline const char *in_folder(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static inline void read_as(struct arena *mem, const char *name, char **text, size_t *n)
{
  struct err e = {0};
  assert_int_equal(file_read(mem, in_folder(name), text, n, &e), OK);
}

static inline void write_as(const char *name, const void *text, size_t n)
{
  FILE *f = fopen(in_folder(name), "wb"); // which need not reach the disk
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

// Makes its files those that were saved, whatever they are.
static inline void seal(const char *name)
{
  struct arena mem = {0};
  struct str s = {0};
  char *bytes, sum[2 * SHA256 + 1];
  size_t n;
  DIR *d = opendir(in_folder(name));
  assert_non_null(d);
  for (const struct dirent *x; (x = readdir(d));) {
    if (*x->d_name == '.' || !strcmp(x->d_name, FOLDER_SUMS)) continue;
    read_as(&mem, arena_printf(&mem, "%s/%s", name, x->d_name), &bytes, &n);
    sha256_text(bytes, n, sum);
    str_add(&s, "%s  %s\n", sum, x->d_name);
  }
  closedir(d);
  write_as(arena_printf(&mem, "%s/" FOLDER_SUMS, name), str_text(&s), s.n);
  str_free(&s);
  arena_close(&mem);
}

// The file with the first `was` in it replaced.
static inline void replaced(const char *name, const char *was, const char *now)
{
  struct arena mem = {0};
  struct str s = {0};
  size_t n;
  char *text = NULL;
  read_as(&mem, name, &text, &n);
  const char *at = strstr(text, was);
  if (!at) fail_msg("no %s in %s", was, text);
  str_raw(&s, text, (size_t)(at - text));
  str_add(&s, "%s%s", now, at + strlen(was));
  write_as(name, s.p, s.n);
  str_free(&s);
  arena_close(&mem);
}

#endif
