// cli: the command `mica`. One file a subcommand; options and subcommands are rows of opt.def and cmd.def.
//
//   main.c      finds the subcommand, turns errors into exit statuses
//   options.c   argument list -> struct cli
//   end.c       signals, and the deadline of a command that does not end by itself
//   cli_work.c  processor time of the command and its children
//   help.c      texts of help from the rows
//   progress.c  the line on a terminal;   terminal.c  its width and colours
//   output.c    answers to files and standard output
//   compiled.c  a program as compiled code, for `mica run`
//   npy.c       numpy's array files;   elements.c  elements of device tensors
//   import_onnx.c, run_onnx.c  models in the format of ONNX
//   abstract_text.c  abstract expressions of a graph
//   cli_covers.c  the answer to `search --covers`
//   crew.c      processes that share a search (MPI)
//   tile_emit.c `mica tile emit`;   tile_run.c  `mica tile run`;   tile_device.c  its --gpu;   cli_tile_cpu.c  its --cpu
//   tile_bench.c `mica tile bench`
//   optimize_peers.c `mica optimize --peers`
//   lower_check.c `mica lower --check`
//   watch_passes.c  what --dump, --stop-after and MICA_TRACE print
//   cmd_*.c     the subcommands
#ifndef MICA_CLI_H
#define MICA_CLI_H

#include "drive/drive.h"
#include "export/export.h"
#include "front/front.h"
#include "report/report.h"

enum {
#define OPT(id, ...) OPT_##id,
#include "cli/opt.def"
#undef OPT
  OPTS
};

struct cli {
  struct arena mem;
  struct err err;
  const struct cmd *cmd;
  int nargs;
  const char **args;
  bool given[OPTS];
  const char *source, *source_path; // the text that was read last, for later errors about it; or NULL
  // fields set by opt.def
  int nset;
  const char **set;
  const char *dtype, *entry, *target, *off, *engine, *out, *json, *html, *csv, *db, *covers, *order, *swizzle, *arch, *kernel, *cubin, *against,
      *knobs, *dump, *accept, *reference, *f32_products, *attention_merge, *dump_dir, *stop_after, *keep_dropped, *candidate;
  int max_block_ops, max_kernel_ops, max_part_ops, max_values, threads, search_threads, measure, tune, time, top, rows, world, workers, shared, steps,
      deadline, attention_parts, pages, prepare;
  uint64_t seed, context;
  bool text, draw, expand, unfold, abstract, fresh, disturbed, no_db, quiet, why, parts, gpu, cpu, check, small, all, compile, optimize, strict,
      check_passes, check_only, peers, portable;
};

typedef unsigned __int128 opt_set;
struct cmd {
  const char *name;
  int (*run)(struct cli *c);
  int least, most;
  const char *args;
  opt_set options; // bits 1 << OPT_x
  const char *summary, *examples;
};
extern const struct cmd cmds[];
extern const int cmd_count;
const struct cmd *cmd_find(const char *name);
int cmd_unknown(struct cli *c, const char *name);

// ---- end.c ----
extern const volatile int *const cli_stop; // set by SIGINT and SIGTERM
void end_open(void);                       // handles signals from now on
void end_by(double seconds);               // ends the command `seconds` from now, at its next wait

// ---- cli_work.c ----
double work_seconds(void); // processor seconds of this process and its descendants

// ---- options.c ----
int options_parse(struct cli *c, int argc, char **argv); // parses the arguments after the subcommand's name
int option_unknown(struct cli *c, const char *what, const char *word, const char *nearest, const char *all);

// ---- help.c ----
struct option_row {
  const char *name, *argument, *doc; // argument "": a flag
};
extern const struct option_row option_rows[];
void help_overview(FILE *f);
void help_command(FILE *f, const struct cmd *cmd);

// ---- terminal.c ----
int terminal_columns(int fd);                   // 0: not a terminal
bool terminal_colours(int fd);                  // a terminal, and the user allows colours
void terminal_error(const char *text);          // a message to standard error
void terminal_title(FILE *f, const char *text); // bold

// ---- progress.c ----
struct progress {
  bool on, shown;
  int columns; // columns of the terminal; 0: standard error is no terminal, and lines are rare
  double start, last;
  const char *label; // the program, in bench
  char stage[64];    // of the last call
};
void progress_open(struct progress *p, const struct cli *c, const char *label);
void progress_show(void *arg, const struct mica_progress *m); // callback of mica_options
void progress_clear(struct progress *p);

// ---- watch_passes.c ----
// Sets options from --dump and similar ones and from MICA_TRACE; clears `line` before printing. The result is valid for this call only.
int watch_options(struct cli *c, struct progress *line, struct mica_options *o);
void watch_list(FILE *f); // lists the passes

// ---- output.c ----
// Files are written under a temporary name and renamed; devices and pipes are written directly; "-" is standard output.
int output_write(const char *path, const char *text, size_t n, struct err *e);
int output_json(struct cli *c, const json_t *v);                   // writes to --json if given
bool output_unread(void);                                          // standard output is a closed pipe
bool output_wants_text(const struct cli *c);                       // not --quiet, and --json - does not use standard output
int output_check(const char *path, struct err *e);                 // whether a file can be written there
int output_folder(const char *path, struct err *e);                // makes the folder and checks that it can be written to
void output_said(const char *const *argv, char *out, size_t size); // the first line that a command prints; "" if it fails
// revision of the tree that the command runs in, else of the build: a column of tables
void output_revision(char out[48]);

// ---- shared by subcommands ----
enum { CLI_FULL_OPS = 2000000000 }; // limit of tests at full size for each of many graphs
int cli_load(struct cli *c, const char *path, struct graph **g);
struct mica_options cli_options(const struct cli *c);
int cli_threads(const struct cli *c); // --threads, limited to what this machine can run
// The graph as compiled code. rank: for several devices, the graph of one rank, or NULL. The default database keeps it for the next run. The caller
// closes it.
int cli_compiled(struct cli *c, const struct graph *g, const struct graph *rank, const char *name, struct module **out);
struct graph *cli_match_inputs(struct cli *c, const struct graph *program, struct graph *g);
int cli_load_mirage(struct cli *c, const char *path, struct graph ***g, int *n);
int cli_covers(struct cli *c, struct job *j); // answers --covers

// ---- optimize_peers.c ----
int cli_peers(struct cli *c, struct mica_context *m, const struct mica_report *r); // prints the peers' lines before the report

// ---- crew.c ----
// A crew of one if mpirun did not start this process. Changes the options of all processes but the first.
int crew_open(struct cli *c, struct crew *w, struct mica_options *o);
void crew_close(const struct crew *w);

// ---- abstract_text.c ----
int abstract_text(struct arena *mem, const struct graph *plain, struct str *out, struct err *e); // one line for each output

// ---- tile_load.c, tile_emit.c, tile_run.c, tile_bench.c: verbs of `mica tile` ----
struct tile_program;
struct tile_kernel;
struct tile_setting;
int cli_tile_settings(struct cli *c, struct tile_setting **set);             // settings from --set, nset of them
int cli_load_tile(struct cli *c, const char *path, struct tile_program **p); // with the settings of --set
int cli_load_tile_set(struct cli *c, const char *path, int nset, struct tile_setting *set, struct tile_program **p);
int cli_tile_kernel(struct cli *c, const struct tile_program *p, struct tile_kernel **k); // the kernel of --kernel, or the only one
int cli_tile_emit(struct cli *c, int nfiles, const char **files);
int cli_tile_run(struct cli *c, int nfiles, const char **files);
int cli_tile_bench(struct cli *c, int nfiles, const char **files);
// tile_device.c: the GPU for --gpu. Without the option nothing is opened.
struct tile_device {
  struct gpu *g;
  struct nvrtc *r;
  int arch;    // of the device
  void **host; // for each buffer of the kernel: the GPU's result
};
struct tile_host;
int tile_device_open(struct cli *c, struct tile_device *d);
void tile_device_close(struct tile_device *d);
int tile_device_run(struct cli *c, struct tile_device *d, const struct tile_host *h);
int tile_device_compare(struct cli *c, const struct tile_device *d, const struct tile_host *h); // h: after the interpreter
// cli_tile_cpu.c: --cpu; `host`: its results for each buffer
int tile_processor_run(struct cli *c, const struct tile_host *h, void ***host);
int tile_processor_compare(struct cli *c, const struct tile_host *h, void *const *host); // h: after the interpreter

// ---- lower_*.c: kernel graphs as kernels for GPUs ----
struct lower_plan;
struct choice;
bool cli_lower_chosen(const struct cli *c, const struct lower_plan *p, int unit); // whether --kernel selects it
bool cli_lower_apart(const struct lower_plan *p, struct choice *pick, int unit);  // picks choices that make it a separate launch; false: impossible
// Runs the program of these choices and, with --all, each other choice of the selected kernels.
int cli_lower_check(struct cli *c, const struct lower_plan *p, const struct choice *pick);
int cli_lower_dump(struct cli *c, const struct lower_plan *p, struct choice *pick);
int cli_lower_schemes(const struct cli *c);      // the table of docs/lower.md
int cli_lower_rules(const struct cli *c);        // the table of docs/kern.md
int cli_lower_off(struct cli *c, unsigned *off); // rules named by --off, as bits
int cli_lower_json(struct cli *c, const struct lower_plan *p, const struct choice *pick);

// ---- npy.c ----
int npy_read(struct arena *mem, const char *path, struct shape *shape, double **data, struct err *e);
int npy_write(const char *path, const struct shape *shape, const double *data, struct err *e);
struct onnx_cells;
int npy_read_cells(struct arena *mem, const char *path, struct onnx_cells **out, struct err *e); // integers and bools too
int npy_write_cells(const char *path, const struct onnx_cells *c, struct err *e);

// ---- elements.c ----
void cli_encode(enum dtype t, const double *x, void *to, int64_t n);
void cli_decode(enum dtype t, const void *from, double *x, int64_t n);

// ---- import_onnx.c, run_onnx.c ----
bool cli_is_onnx(const char *path); // a model, or a folder from `import --out`
int cli_import_onnx(struct cli *c, const char *path, bool optimize);
int cli_run_onnx(struct cli *c);

#define CMD(name, ...) int cmd_##name(struct cli *c);
#include "cli/cmd.def"
#undef CMD

// ---- mega_gpu.c ----
struct mega_sizes;
int mega_run_gpu(struct cli *c, const struct mega_sizes *sizes, double deadline);

#endif
