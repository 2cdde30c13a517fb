// folder: saved folders as a whole. A folder is written under a temporary name and put in place by one rename, so a reader sees the old or the new
// folder at any time. Its SHA256SUMS, in the format of sha256sum, has the checksum of every file; reading a folder verifies them.
#ifndef MICA_EXPORT_FOLDER_H
#define MICA_EXPORT_FOLDER_H

#include "base/base.h"

#define FOLDER_SUMS "SHA256SUMS"

struct folder_file {
  const char *name; // a plain file name that does not begin with a dot
  const void *bytes;
  size_t n;
};
struct folder_files {
  int n;
  const struct folder_file *file;
};
const struct folder_file *folder_find(const struct folder_files *f, const char *name); // or NULL

// ---- folder_write.c ----
// Replaces the files of an older saved folder and keeps other files. A folder inside it is an error, as it cannot be kept.
int folder_write(struct arena *mem, const char *path, const struct folder_files *f, struct err *e);
// Reports the errors of folder_write that can be known in advance.
int folder_check(struct arena *mem, const char *path, struct err *e);

// ---- folder_read.c ----
// Reads all files and verifies their checksums. The error names the file that differs. Only this user and root may be able to write to the folder.
int folder_read(struct arena *mem, const char *path, struct folder_files *out, struct err *e);
// The names in the folder's SHA256SUMS, with checksums in place of contents. NO: it is missing or cannot be read.
int folder_listed(struct arena *mem, int folder, struct folder_files *out);

// ---- folder_aside.c: temporary folders beside a saved one, named after it ----
struct folder_place {
  int parent; // descriptor of the parent folder
  char name[256];
};
int folder_place(struct arena *mem, const char *path, bool make, struct folder_place *out, struct err *e);
enum folder_aside { ASIDE_NEW, ASIDE_OLD }; // a new folder that is not in place yet; an old folder that was moved away
void folder_aside(const struct folder_place *p, enum folder_aside kind, uint64_t number, char out[64]);
bool folder_older(const struct folder_place *p, char out[64]);              // finds an old folder that was moved away and never replaced
bool folder_is(const struct folder_place *p, const char *name, int folder); // whether `name` is the open folder
void folder_sweep(const struct folder_place *p);                            // removes temporary folders of interrupted saves
// renameat2, or the closest that the file system supports; 0, or -1 and errno
int folder_rename(int parent, const char *from, const char *to, unsigned how);
bool folder_unsupported(void);                               // whether errno says that the file system does not support it
void folder_empty(int parent, const char *name, int folder); // removes its files, then the folder

#endif
