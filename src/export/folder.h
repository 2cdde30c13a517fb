// folder: saved folders as a whole. They are written aside and put in place by one rename, so that at any time a folder is the old one or the new
// one; and SHA256SUMS in them, in the format of sha256sum, has the checksum of every file, which is looked at when they are read.
#ifndef MICA_EXPORT_FOLDER_H
#define MICA_EXPORT_FOLDER_H

#include "base/base.h"

#define FOLDER_SUMS "SHA256SUMS"

struct folder_file {
  const char *name; // no folder, and no dot ahead
  const void *bytes;
  size_t n;
};
struct folder_files {
  int n;
  const struct folder_file *file;
};
const struct folder_file *folder_find(const struct folder_files *f, const char *name); // or NULL

// ---- folder_write.c ----
// Files of an older saved folder go; other files stay. A folder in it is an error, as it cannot be kept.
int folder_write(struct arena *mem, const char *path, const struct folder_files *f, struct err *e);
// Reports what would stop folder_write, as far as that is known before.
int folder_check(struct arena *mem, const char *path, struct err *e);

// ---- folder_read.c ----
// All files, each as it was saved, or the error names one. Nobody but this user and root can have changed them.
int folder_read(struct arena *mem, const char *path, struct folder_files *out, struct err *e);
// The names that the folder's SHA256SUMS lists, with sums in place of bytes; NO: there is none that can be read.
int folder_listed(struct arena *mem, int folder, struct folder_files *out);

// ---- folder_aside.c: folders that lie beside one that is saved, named by it ----
struct folder_place {
  int parent; // descriptor of the folder around
  char name[256];
};
int folder_place(struct arena *mem, const char *path, bool make, struct folder_place *out, struct err *e);
enum folder_aside { ASIDE_NEW, ASIDE_OLD }; // written and not yet in place; taken away to make place
void folder_aside(const struct folder_place *p, enum folder_aside kind, uint64_t number, char out[64]);
bool folder_older(const struct folder_place *p, char out[64]);                 // one that was taken away and nothing came in its place
bool folder_is(const struct folder_place *p, const char *name, int folder);    // the name is that of the open folder
void folder_sweep(const struct folder_place *p);                               // what saves that did not come to their end have left
int folder_rename(int parent, const char *from, const char *to, unsigned how); // renameat2, as well as the file system can; 0, or -1 and errno
bool folder_unsupported(void);                                                 // by errno: the file system cannot do that
void folder_empty(int parent, const char *name, int folder);                   // its files, and itself

#endif
