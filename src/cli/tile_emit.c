// mica tile emit: a kernel as CUDA C++ and, with --cubin, as machine code; with --arch c as C for the CPU. Needs no GPU, and
// NVRTC only for --cubin.
#include "cli/cli.h"
#include "cprint/cprint.h"
#include "cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

int cli_tile_kernel(struct cli *c, const struct tile_program *p, struct tile_kernel **k)
{
  *k = NULL;
  for (int i = 0; i < p->nkernels; i++)
    if (!c->kernel || !strcmp(c->kernel, p->kernels[i]->name)) {
      if (*k) return err_set(&c->err, ERR_OPTION, NOWHERE, "%s has several kernels: choose one by --kernel NAME", p->file);
      *k = p->kernels[i];
    }
  return *k ? OK : err_set(&c->err, ERR_OPTION, NOWHERE, "%s has no kernel %.60s", p->file, c->kernel ? c->kernel : "at all");
}

// Uses the instructions of the kernel's own target, since C supports all that do not leave the block.
static int emit_c(struct cli *c, struct tile_program *p, struct tile_kernel *k)
{
  struct str text = {0};
  if (c->cubin) return err_set(&c->err, ERR_OPTION, NOWHERE, "--cubin is machine code of a GPU, and --arch c prints C");
  TRY(tile_lower(p, k, k->arch, &c->err));
  int status = cprint_kernel(p, k, &text, &c->err);
  if (status == OK && (c->out || output_wants_text(c))) status = output_write(c->out ? c->out : "-", str_text(&text), text.n, &c->err);
  str_free(&text);
  return status;
}

int cli_tile_emit(struct cli *c, int nfiles, const char **files)
{
  if (nfiles != 1) return err_set(&c->err, ERR_OPTION, NOWHERE, "mica tile emit takes one file");
  struct tile_program *p;
  struct tile_kernel *k;
  TRY(cli_load_tile(c, files[0], &p));
  TRY(cli_tile_kernel(c, p, &k));
  int arch = k->arch;
  if (c->arch && !strcmp(c->arch, "c")) return emit_c(c, p, k);
  if (c->arch) TRY(cuda_arch_find(c->arch, &arch, &c->err));
  TRY(tile_lower(p, k, arch, &c->err));
  struct str text = {0};
  int status = cuda_print(p, k, arch, &text, &c->err);
  bool shown = !c->out && !c->cubin && output_wants_text(c);
  if (status == OK && (c->out || shown)) status = output_write(c->out ? c->out : "-", str_text(&text), text.n, &c->err);
  struct nvrtc *r = NULL;
  struct cubin cubin;
  if (status == OK && c->cubin) status = nvrtc_open(&r, &c->err);
  if (r) status = nvrtc_compile(r, &c->mem, k->name, str_text(&text), arch, &cubin, &c->err);
  if (r && status == OK && output_wants_text(c) && strcmp(c->cubin, "-"))
    printf("%s for %s: %d registers, %d bytes spilled, %lld bytes of shared memory\n", k->name, cuda_arch_name(arch), cubin.registers, cubin.spilled,
           (long long)k->shared_bytes);
  if (r && status == OK) status = output_write(c->cubin, cubin.bytes, cubin.n, &c->err);
  nvrtc_close(r);
  str_free(&text);
  return status;
}
