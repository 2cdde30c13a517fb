// Files mapped for reading, so that weights are neither copied nor read before they are used.
#include "onnx/onnx.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *path, struct err *e) { return err_set(e, ERR_FILE, NOWHERE, "cannot open %s: %s", path, strerror(errno)); }

static int map_file(int fd, const char *path, struct onnx_map *map, struct err *e)
{
  struct stat st;
  if (fstat(fd, &st)) return failed(path, e);
  if (!S_ISREG(st.st_mode)) return err_set(e, ERR_FILE, NOWHERE, "%s is no regular file", path);
  map->n = (size_t)st.st_size;
  if (!map->n) return OK;
  void *p = mmap(NULL, map->n, PROT_READ, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED) return failed(path, e);
  map->p = p;
  return OK;
}

int onnx_map_open(struct arena *mem, const char *path, struct onnx_map *map, struct err *e)
{
  *map = (struct onnx_map){.path = arena_strdup(mem, path)};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // O_NONBLOCK: opening a pipe must not block
  if (fd < 0) return failed(path, e);
  int status = map_file(fd, path, map, e);
  close(fd);
  return status;
}

void onnx_map_close(struct onnx_map *map)
{
  if (map->p) munmap((void *)map->p, map->n);
  map->p = NULL;
}
