// Finds libraries of NVIDIA: first by name with the dynamic linker, then in the places of place.def. If a place has several versions, the latest
// is taken.
#include "cuda/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

// A library is never unloaded: unloading would leak memory that it allocated, and loading takes longer than compiling.
enum { HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE, NAMES = 4 };

static const struct {
  enum errid error;
  const char *about, *hint, *names[NAMES];
} rows[LIBRARIES] = {
#define LIBRARY(id, error, about, hint, ...) {ERR_##error, about, hint, {__VA_ARGS__}},
#include "cuda/library.def"
};

static const struct {
  const char *variable, *pattern, *what;
} places[] = {
#define PLACE(variable, pattern, what) {variable, pattern, what},
#include "cuda/place.def"
};

// The folder in front of a place's pattern; NULL: the place does not exist here.
static const char *before(const char *variable, const char *own)
{
  const char *value = !*variable ? "" : !strcmp(variable, "MICA") ? own : getenv(variable);
  return value && (!*variable || *value == '/') ? value : NULL;
}

static void *in_place(const char *folder, const char *pattern, const char *name)
{
  struct str path = {0};
  glob_t found = {0};
  void *so = NULL;
  str_add(&path, "%s%s/%s", folder, pattern, name);
  if (!glob(str_text(&path), 0, NULL, &found))
    for (size_t i = found.gl_pathc; i-- > 0 && !so;) so = dlopen(found.gl_pathv[i], HOW);
  globfree(&found);
  str_free(&path);
  return so;
}

static void *look(enum cuda_library_id id, const char **place)
{
  char own[OWN_PATH];
  void *so = NULL;
  *place = "the dynamic linker";
  for (int k = 0; k < NAMES && rows[id].names[k]; k++)
    if ((so = dlopen(rows[id].names[k], HOW))) return so;
  if (!file_here(own, sizeof own)) *own = 0;
  for (size_t i = 0; i < COUNT(places); i++) {
    const char *folder = before(places[i].variable, own);
    *place = places[i].what;
    for (int k = 0; k < NAMES && rows[id].names[k] && folder; k++)
      if ((so = in_place(folder, places[i].pattern, rows[id].names[k]))) return so;
  }
  return NULL;
}

void *cuda_library(enum cuda_library_id id, struct cuda_found *found, struct err *e)
{
  const char *place;
  struct link_map *map;
  void *so = look(id, &place);
  if (!so) {
    err_set(e, rows[id].error, NOWHERE, "%s was not found%s", rows[id].about, id == LIBRARY_DRIVER ? ": this machine has no GPU to run on" : "");
    return err_hint(e, "%s", rows[id].hint), NULL;
  }
  if (found) {
    *found = (struct cuda_found){.place = place};
    if (!dlinfo(so, RTLD_DI_LINKMAP, &map) && map->l_name && !realpath(map->l_name, found->path))
      snprintf(found->path, sizeof found->path, "%s", map->l_name);
  }
  return so;
}

void cuda_library_places(struct str *out)
{
  str_add(out, "LD_LIBRARY_PATH and the system's folders");
  for (size_t i = 0; i < COUNT(places); i++) {
    const bool mica = !strcmp(places[i].variable, "MICA");
    str_add(out, ", %s%s%s", *places[i].variable && !mica ? "$" : "", mica ? "Mica's folder" : places[i].variable, places[i].pattern);
  }
}
