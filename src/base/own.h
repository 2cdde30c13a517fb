// own: files and folders that no other user can plant or change, and checksums of what is in files.
//
// A folder is one's own where it belongs to the user of this process and nobody else can write to it, and where each folder above
// it belongs to the user or to root and nobody else can write to it, or it is sticky (as /tmp). Symbolic links on the way
// belong to the user or to root. So nobody else can put another folder in its place, and a path in it stays what it was when it was checked.
// "Nobody else" is by the permission bits; a group that has the name of the user and no other member counts as the user.
#ifndef MICA_OWN_H
#define MICA_OWN_H

#include "base/base.h"

#include <sys/types.h>

enum { OWN_PATH = 4096 };

// ---- own.c ----
struct own_place {                // a file's
  int folder;                     // descriptor
  char path[OWN_PATH], name[256]; // of the folder, absolute and without links; of the file in it
};
// Looks at a folder and all above it; `make`: those that are missing are made, with mode 0700 whatever the umask.
// ERR_UNTRUSTED, or ERR_FILE where it is not there. *folder is an open descriptor.
int own_folder(const char *path, bool make, int *folder, char real[OWN_PATH], struct err *e);
// The same for the folder that a file is in, or may be made in; links that are files are followed.
int own_place(const char *path, bool make, struct own_place *out, struct err *e);
// The folder alone, not those above it: may other users put something there?
int own_above(const char *path, struct err *e);

enum { OWN_ROOTS = 1, OWN_SECRET = 2 }; // it may belong to root too; nobody else may read it
// An open file or folder. By descriptor, so that what was checked is what is used.
int own_check(int fd, const char *path, unsigned how, struct err *e);
// A regular file of a folder, as own_check; NO where there is none. *size: of the file.
int own_file(int folder, const char *name, const char *path, unsigned how, off_t *size, struct err *e);
// Makes a file with mode 0600 that is whole when it appears. One that is there stays: then NO.
int own_create(int folder, const char *name, const void *bytes, size_t n, struct err *e);

// ---- sha256.c ----
enum { SHA256 = 32 };
struct sha256 {
  uint32_t h[8];
  uint64_t n;
  uint8_t rest[64];
};
void sha256_open(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
void sha256_close(struct sha256 *s, uint8_t out[SHA256]);
void sha256_text(const void *p, size_t n, char out[2 * SHA256 + 1]); // in hexadecimal
void hmac_open(struct sha256 *s, const uint8_t key[SHA256]);
void hmac_add(struct sha256 *s, const void *p, size_t n); // a piece, with its length
void hmac_close(struct sha256 *s, const uint8_t key[SHA256], uint8_t out[SHA256]);

#endif
