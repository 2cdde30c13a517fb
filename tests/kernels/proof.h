// Runs a kernel of kernels/ at some sizes in the interpreter, which must find no error, and compares it with its tensor program. Shared by the tests
// of this folder.
#ifndef TESTS_KERNELS_PROOF_H
#define TESTS_KERNELS_PROOF_H

struct proof {
  const char *kernel;  // FILE.tile[,NAME=VALUE]...[,%BUFFER=SCALE]...
  const char *program; // FILE.mica[,NAME=VALUE]...
};
void prove(const struct proof *rows, int n); // fails the test where one row fails, after all were tried

#endif
