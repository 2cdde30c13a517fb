// mica doctor: checks this machine, and says what is missing and what to do. One function for each row of doctor.def.
#include "base/child.h"
#include "cli/cli.h"
#include "cuda/cuda.h"
#include "cuda/library.h"
#include "cuda/nccl.h"

#include <string.h>

enum need { NEEDED, WANTED, GPU_ONLY };

// OK and a description, or an error with a hint.
typedef int doctor_look(struct str *found, struct err *e);

static int try_compiler(const char *source, struct err *e)
{
  struct module *m;
  struct patience p = {.stop = cli_stop, .until = now_seconds() + 30};
  TRY(module_build_with(source, gen_flags(), "probe", &p, &m, e));
  return module_close(m), OK;
}

#define PROBE(head, body) head "#include <stddef.h>\nsize_t mica_probe_workspace(void) { return 0; }\nint mica_probe(void) { " body " return 0; }\n"

static int doctor_compiler(struct str *found, struct err *e)
{
  TRY(try_compiler(PROBE("#include <omp.h>\n", "if (omp_get_max_threads() < 1) return 1;"), e));
  return str_add(found, "%s, with OpenMP", compiler_version(NULL)), OK;
}

static int doctor_blas(struct str *found, struct err *e)
{
  TRY(try_compiler(
      PROBE("#include <cblas.h>\n", "float x = 1; cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1);"), e));
  return str_add(found, "OpenBLAS and cblas.h"), OK;
}

static int doctor_database(struct str *found, struct err *e)
{
  char path[4096];
  struct db *db;
  TRY(db_open(NULL, &db, e));
  db_close(db);
  str_add(found, "%s", db_default(path, sizeof path) ? path : "");
  return OK;
}

static int ask_python(const char *program, const char *what, struct str *found, struct err *e)
{
  char line[256];
  const char *const argv[] = {"/usr/bin/env", "python3", "-c", program, NULL};
  output_said(argv, line, sizeof line);
  if (!*line) return err_set(e, ERR_LIBRARY, NOWHERE, "python3 cannot import %s", what);
  return str_add(found, "%s", line), OK;
}

static int doctor_python(struct str *found, struct err *e)
{
  return ask_python("import sys, mica, numpy; print('python3', sys.version.split()[0] + ', mica', mica.__version__ + ', numpy', numpy.__version__)",
                    "mica and numpy", found, e);
}

static int doctor_torch(struct str *found, struct err *e) { return ask_python("import torch; print('torch', torch.__version__)", "torch", found, e); }

static int doctor_nvrtc(struct str *found, struct err *e)
{
  struct cuda_found at;
  struct nvrtc *r;
  int major, minor;
  if (!cuda_library(LIBRARY_NVRTC, &at, e)) return (int)e->status;
  TRY(nvrtc_open(&r, e));
  nvrtc_version(r, &major, &minor);
  nvrtc_close(r);
  str_add(found, "%d.%d, %s (%s)", major, minor, at.path, at.place);
  return OK;
}

static int located(enum cuda_library_id id, struct str *found, struct err *e)
{
  struct cuda_found at;
  if (!cuda_library(id, &at, e)) return (int)e->status;
  return str_add(found, "%s (%s)", at.path, at.place), OK;
}

static int doctor_driver(struct str *found, struct err *e) { return located(LIBRARY_DRIVER, found, e); }
static int doctor_cublaslt(struct str *found, struct err *e) { return located(LIBRARY_CUBLASLT, found, e); }

static int doctor_nccl(struct str *found, struct err *e)
{
  struct nccl n;
  int version = 0;
  TRY(nccl_find(&n, e));
  TRY(nccl_check(&n, n.get_version(&version), e, "asking for the version"));
  str_add(found, "%d.%d.%d, ", version / 10000, version / 100 % 100, version % 100);
  return located(LIBRARY_NCCL, found, e);
}

// Which GPUs reach each other, if there are several.
static void reaches(struct str *found)
{
  struct arena mem = {0};
  struct err none = {0};
  struct gpu_place *p;
  int n;
  if (gpu_topology(&mem, &p, &n, &none) != OK) n = 0;
  for (int i = 0; i < n && n > 1; i++) {
    str_add(found, "; %d reaches", i);
    for (int k = 0; k < n; k++)
      if (p[i].reaches >> k & 1) str_add(found, " %d", k);
    if (!p[i].reaches) str_add(found, " none");
  }
  arena_close(&mem);
}

static int doctor_gpus(struct str *found, struct err *e)
{
  struct gpu_facts f;
  struct err end = {0};
  TRY(gpu_look(0, &f, e));
  for (int i = 0; !gpu_look(i, &f, &end); i++) {
    const char *arch = cuda_arch_name(f.arch);
    str_add(found, "%s%d: %s, %d.%d%s%s", i ? "; " : "", i, f.name, f.arch / 10, f.arch % 10, arch ? ", --target " : ", no target for it",
            arch ? arch : "");
  }
  return reaches(found), OK;
}

static const struct {
  const char *name;
  enum need need;
  const char *title, *without, *todo;
  doctor_look *look;
} checks[] = {
#define EXAMINE(name, need, title, without, todo) {#name, need, title, without, todo, doctor_##name},
#include "cli/doctor.def"
};

static json_t *answer_json(size_t i, int status, const char *found, const struct err *e)
{
  static const char *const needs[] = {"needed", "wanted", "for GPUs"};
  json_t *v = json_pack("{s:s, s:s, s:b, s:s}", "name", checks[i].name, "need", needs[checks[i].need], "ok", status == OK, "found", found);
  if (status == OK) return v;
  json_object_update_new(
      v, json_pack("{s:s, s:s, s:s}", "missing", e->text, "without", checks[i].without, "do", *checks[i].todo ? checks[i].todo : e->hint));
  return v;
}

static void print_answer(size_t i, int status, const char *found, const struct err *e)
{
  static const char *const words[] = {[NEEDED] = "MISSING", [WANTED] = "missing", [GPU_ONLY] = "missing"};
  printf("%-8s %-11s %.*s\n", status == OK ? "ok" : words[checks[i].need], checks[i].title, (int)strcspn(status == OK ? found : e->text, "\n"),
         status == OK ? found : e->text);
  if (status != OK) printf("%-20s %s\n%-20s do: %s\n", "", checks[i].without, "", *checks[i].todo ? checks[i].todo : e->hint);
}

static void print_places(const char *places)
{
  printf("\nNVIDIA's libraries are looked for in\n");
  for (size_t n; *places; places += n, places += strspn(places, ", ")) {
    n = strcspn(places, ",");
    printf("  %.*s\n", (int)n, places);
  }
}

int cmd_doctor(struct cli *c)
{
  json_t *list = json_array();
  bool lacks = false;
  if (output_wants_text(c)) printf("mica %s (sources %s)\n\n", mica_version(), build_fingerprint);
  for (size_t i = 0; i < COUNT(checks); i++) {
    struct str found = {0};
    struct err e = {0};
    const int status = checks[i].look(&found, &e);
    lacks |= status != OK && checks[i].need == NEEDED;
    json_array_append_new(list, answer_json(i, status, str_text(&found), &e));
    if (output_wants_text(c)) print_answer(i, status, str_text(&found), &e);
    str_free(&found);
  }
  struct str places = {0};
  cuda_library_places(&places);
  if (output_wants_text(c)) print_places(str_text(&places));
  json_t *root = json_pack("{s:s, s:o, s:s}", "mica", mica_version(), "checks", list, "places", str_text(&places));
  str_free(&places);
  int status = output_json(c, root);
  json_decref(root);
  return status != OK ? status : lacks ? NO : OK;
}
