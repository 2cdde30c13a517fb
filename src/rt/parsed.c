// <immintrin.h>, precompiled. Parsing it is half of the time of compiling a small kernel, because gcc's has the functions of every x86 there is.
// The precompiled header lies in the folder of the user's own files (key.c, own.h), so nobody else can plant one. Its name is a hash of the
// compiler and what it says of its version, its flags and the features of the processor: the compiler may be a word behind another, as in
// CC="ccache gcc", or be started by a script. The header is made by the second compilation of a process: one alone would not earn it.
// A compiler that refuses the file reads the text of the header next to it, or fails and is run again without.
#include "rt/compiler.h"
#include "rt/db.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__

enum { KEYS = 8, NAME = 2 * SHA256 + 16 };
static const char text[] = PARSED_LINE "\n";
static const char folder_name[] = "headers";
static const time_t LONGEST = 30 * 86400; // seconds after which one is removed: compilers and their flags change

struct parsed {
  char words[2 * SHA256 + 1], hash[2 * SHA256 + 1]; // of the command line and its files; of the version too, "" until it was asked
  int asked;
  bool busy, refused;
};
static struct {
  pthread_mutex_t lock;
  struct parsed all[KEYS];
  int n;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- its name ----

// -march=native is another instruction set on another processor.
static void add_processor(struct sha256 *s)
{
  char line[4096] = "";
  FILE *f = fopen("/proc/cpuinfo", "re");
  while (f && fgets(line, sizeof line, f) && strncmp(line, "flags", 5)) *line = 0;
  if (f) fclose(f);
  hmac_add(s, line, strlen(line));
}

// The program of this name, or nothing.
static void add_program(struct sha256 *s, const char *name)
{
  struct stat st;
  char path[512];
  if (!compiler_find(name, path) || stat(path, &st)) return;
  const int64_t file[] = {(int64_t)st.st_size, (int64_t)st.st_mtim.tv_sec, (int64_t)st.st_mtim.tv_nsec, (int64_t)st.st_ino};
  hmac_add(s, file, sizeof file);
}

static void close_text(struct sha256 *s, char out[2 * SHA256 + 1])
{
  uint8_t hash[SHA256];
  sha256_close(s, hash);
  for (int i = 0; i < SHA256; i++) snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

static void hash_words(char *const *argv, int n, char out[2 * SHA256 + 1])
{
  struct sha256 s;
  bool programs = true;
  sha256_open(&s);
  hmac_add(&s, text, sizeof text);
  for (int i = 0; i < n; i++) {
    programs = programs && *argv[i] != '-';
    if (programs) add_program(&s, argv[i]);
    hmac_add(&s, argv[i], strlen(argv[i]));
  }
  add_processor(&s);
  close_text(&s, out);
}

// And of what the compiler says of its version.
static bool hash_version(const char *words, char *const *argv, int n, const struct workshop *w, const struct patience *p, char out[2 * SHA256 + 1])
{
  char *more[MAX_ARGS] = {0}, *said;
  struct arena mem = {0};
  struct err e = {0};
  struct sha256 s;
  size_t size;
  memcpy(more, argv, (size_t)n * sizeof *more);
  more[n] = (char *)"--version";
  const bool ok = !compiler_run(more, w, p) && file_read(&mem, w->said, &said, &size, &e) == OK;
  if (ok) {
    sha256_open(&s);
    hmac_add(&s, words, 2 * SHA256);
    hmac_add(&s, said, size);
    close_text(&s, out);
  }
  arena_close(&mem);
  return ok;
}

// ---- the files ----

struct header_place {
  int folder;
  char path[OWN_PATH], header[NAME], parsed[NAME]; // path of the folder; names in it
};

static bool place_open(struct header_place *p, const char *hash)
{
  char cache[OWN_PATH], folder[OWN_PATH];
  struct err e = {0};
  snprintf(p->header, NAME, "%s.h", hash);
  snprintf(p->parsed, NAME, "%s.h.gch", hash); // the name that gcc and clang look for
  return cache_folder(cache) && snprintf(folder, sizeof folder, "%s/%s", cache, folder_name) < (int)sizeof folder &&
         own_folder(folder, true, &p->folder, p->path, &e) == OK;
}

static void remove_old(int folder)
{
  struct stat s;
  const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
  for (const struct dirent *x; d && (x = readdir(d));)
    if (!fstatat(folder, x->d_name, &s, AT_SYMLINK_NOFOLLOW) && S_ISREG(s.st_mode) && time(NULL) - s.st_mtime > LONGEST)
      unlinkat(folder, x->d_name, 0);
  if (d)
    closedir(d);
  else if (fd >= 0)
    close(fd);
}

// OK, NO, or an error where it is not this user's own.
static int is_there(const struct header_place *p, const char *name)
{
  struct err e = {0};
  off_t size;
  return own_file(p->folder, name, name, 0, &size, &e);
}

// Under a name of this thread's own first, so that it is whole when it appears. It is not forced to the disk: a compiler refuses
// half of it, and then it is removed.
static bool make(const struct header_place *at, char *const *argv, int n, const struct workshop *w, const struct patience *p)
{
  char *more[MAX_ARGS] = {0}, header[OWN_PATH + NAME], made[OWN_PATH + NAME];
  const char *const id = strrchr(w->in.path, '/') + 1; // of a folder that nobody else has
  struct err e = {0};
  snprintf(header, sizeof header, "%s/%s", at->path, at->header);
  snprintf(made, sizeof made, "%s/%s", at->path, id);
  char *const last[] = {(char *)"-x", (char *)"c-header", header, (char *)"-o", made};
  if (n + COUNT(last) >= MAX_ARGS) return false;
  memcpy(more, argv, (size_t)n * sizeof *more);
  memcpy(more + n, last, sizeof last);
  const int status = own_create(at->folder, at->header, text, sizeof text - 1, &e);
  const bool ok = (status == OK || status == NO) && !compiler_run(more, w, p) && !fchmodat(at->folder, id, 0600, 0) &&
                  !renameat(at->folder, id, at->folder, at->parsed);
  if (!ok) unlinkat(at->folder, id, 0);
  return ok;
}

// ---- which are used ----

static struct parsed *take(const char *words)
{
  struct parsed *x = NULL;
  pthread_mutex_lock(&known.lock);
  for (int i = 0; i < known.n && !x; i++)
    if (!strcmp(known.all[i].words, words)) x = &known.all[i];
  if (!x && known.n < KEYS) memcpy((x = &known.all[known.n++])->words, words, sizeof x->words);
  if (x && (x->busy || x->refused)) x = NULL; // while it is made, other threads do without
  if (x) x->busy = true, x->asked++;
  pthread_mutex_unlock(&known.lock);
  return x;
}

static void give(struct parsed *x, bool refused)
{
  pthread_mutex_lock(&known.lock);
  x->busy = false, x->refused = refused;
  pthread_mutex_unlock(&known.lock);
}

// Only the thread that took x.
static bool named(struct parsed *x, char *const *argv, int n, const struct workshop *w, const struct patience *p)
{
  char hash[2 * SHA256 + 1];
  if (*x->hash) return true;
  if (n + 1 >= MAX_ARGS || !hash_version(x->words, argv, n, w, p, hash)) return false;
  pthread_mutex_lock(&known.lock);
  memcpy(x->hash, hash, sizeof hash);
  pthread_mutex_unlock(&known.lock);
  return true;
}

bool parsed_header(char *const *argv, int n, const struct workshop *w, const struct patience *p, char out[OWN_PATH])
{
  char words[2 * SHA256 + 1];
  struct header_place at;
  hash_words(argv, n, words);
  struct parsed *x = take(words);
  if (!x) return false;
  if (!named(x, argv, n, w, p)) return give(x, !patience_over(p)), false;
  if (!place_open(&at, x->hash)) return give(x, true), false;
  if (x->asked == 1) remove_old(at.folder);
  const int header = is_there(&at, at.header), parsed = is_there(&at, at.parsed);
  const bool own = (header == OK || header == NO) && (parsed == OK || parsed == NO), whole = header == OK && parsed == OK;
  const bool made = own && !whole && x->asked > 1 && make(&at, argv, n, w, p);
  const bool fits = snprintf(out, OWN_PATH, "%s/%s", at.path, at.header) < OWN_PATH;
  close(at.folder);
  give(x, !own || !fits || (!whole && !made && x->asked > 1 && !patience_over(p)));
  return fits && own && (whole || made);
}

void parsed_refused(const char *path)
{
  const char *name = strrchr(path, '/') + 1;
  char parsed[OWN_PATH + 8];
  snprintf(parsed, sizeof parsed, "%s.gch", path);
  unlink(parsed);
  pthread_mutex_lock(&known.lock);
  for (int i = 0; i < known.n; i++) known.all[i].refused |= !strncmp(known.all[i].hash, name, 2 * SHA256);
  pthread_mutex_unlock(&known.lock);
}

#else // the header is of x86

bool parsed_header(char *const *argv, int n, const struct workshop *w, const struct patience *p, char out[OWN_PATH])
{
  return (void)argv, (void)n, (void)w, (void)p, (void)out, false;
}

void parsed_refused(const char *path) { (void)path; }

#endif
