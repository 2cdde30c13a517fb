// mica: the command. Exit status 0: done; 1: the answer is no; 2: a user error; 3: an error of the environment.
#include "base/child.h"
#include "cli/cli.h"
#include "front/parse.h"
#include "gpu/gpu.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define O(id) ((opt_set)1 << OPT_##id)
#define TEXT_ONLY ((opt_set)1 << 127) // no JSON output
#define READING (O(SET) | O(ENTRY) | O(DTYPE))
#define SEARCHING \
  (READING | O(TARGET) | O(BLOCK_OPS) | O(KERNEL_OPS) | O(PART_OPS) | O(VALUES) | O(THREADS) | O(SEARCH_THREADS) | O(SEED) | O(OFF) | O(F32_PRODUCTS))
#define WATCHING (O(DUMP) | O(DUMP_DIR) | O(STOP_AFTER) | O(CHECK_PASSES) | O(KEEP_DROPPED) | O(CANDIDATE) | O(KNOBS))
const struct cmd cmds[] = {
#define CMD(name, least, most, args, options, summary, examples) \
  {#name, cmd_##name, least, most, args, ((options) & ~TEXT_ONLY) | ((options)&TEXT_ONLY ? 0 : O(JSON)) | O(QUIET), summary, examples},
#include "cli/cmd.def"
#undef CMD
};
_Static_assert(OPTS < 8 * sizeof cmds[0].options - 1, "a bit an option");
const int cmd_count = COUNT(cmds);

const struct cmd *cmd_find(const char *name)
{
  for (int i = 0; i < cmd_count; i++)
    if (!strcmp(name, cmds[i].name)) return &cmds[i];
  return NULL;
}

int cmd_unknown(struct cli *c, const char *name)
{
  static const char *const dashed[] = {"--help", "--version"};
  bool dash = *name == '-';
  struct near n = near_start(name);
  for (int i = 0; i < cmd_count && !dash; i++) near_try(&n, cmds[i].name);
  for (size_t i = 0; i < COUNT(dashed) && dash; i++) near_try(&n, dashed[i]);
  return option_unknown(c, dash ? "command or option" : "command", name, n.best, "`mica help` lists the commands");
}

static int dispatch(struct cli *c, int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : "help";
  if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
  if (!strcmp(name, "--version") || !strcmp(name, "-V")) name = "version";
  if (argc == 3 && !strcmp(name, "gpu-worker")) return gpu_worker_main(atoi(argv[2])); // only gpu/worker.c starts this
  c->cmd = cmd_find(name);
  if (!c->cmd) return cmd_unknown(c, name);
  for (int i = 2; i < argc; i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return help_command(stdout, c->cmd), OK;
  const int parsed = options_parse(c, MAX(argc - 2, 0), argv + 2), status = parsed == OK ? c->cmd->run(c) : parsed;
  if (c->err.id == ERR_OPTION && !strcmp(c->err.hint, err_usual_hint(ERR_OPTION))) err_hint(&c->err, "`mica help %s` lists the options", name);
  return status;
}

static int guarded(struct cli *c, int argc, char **argv)
{
  struct guard g;
  int status;
  guard_open(&g);
  if (!setjmp(g.back))
    status = dispatch(c, argc, argv), guard_leave(&g);
  else
    guard_fail(&g), status = mem_error(&g.lack, &c->err);
  return status;
}

// ---- the stack ----

struct main_call {
  struct cli *c;
  int argc;
  char **argv;
  int status;
};

static void *call(void *arg)
{
  struct main_call *x = arg;
  return x->status = guarded(x->c, x->argc, x->argv), NULL;
}

// Programs are traversed by recursion, so deep ones need a large stack, and so does the compiler. If this process's limit is smaller, it is raised as
// far as possible for child processes. The work runs in a thread, whose stack has no such limit.
static int with_stack(struct cli *c, int argc, char **argv)
{
  struct rlimit r;
  pthread_attr_t usual;
  pthread_t t;
  struct main_call x = {c, argc, argv, OK};
  if (getrlimit(RLIMIT_STACK, &r) || r.rlim_cur >= POOL_STACK) return guarded(c, argc, argv);
  r.rlim_cur = MIN(r.rlim_max, (rlim_t)POOL_STACK);
  setrlimit(RLIMIT_STACK, &r);
  pthread_attr_init(&usual);
  pthread_attr_setstacksize(&usual, POOL_STACK);
  pthread_setattr_default_np(&usual); // for threads that compiled kernels start
  pthread_attr_destroy(&usual);
  if (pool_thread(&t, call, &x)) {
    err_set(&c->err, ERR_MEMORY, NOWHERE, "the stack is limited to %llu bytes, and no thread with a larger one can be started",
            (unsigned long long)r.rlim_cur);
    return err_hint(&c->err, "`ulimit -s 8192` raises the limit"), ENV;
  }
  pthread_join(t, NULL);
  return x.status;
}

static void show_error(struct cli *c)
{
  char text[ERR_TEXT];
  if (c->source && c->err.at.file && !strcmp(c->err.at.file, c->source_path)) err_source(&c->err, c->source, strlen(c->source));
  err_text(text, sizeof text, &c->err);
  terminal_error(text);
}

// Arenas of candidates are freed and allocated often, so freed memory stays with the process. A job for attention then has 110,000 page faults
// instead of 525,000.
static void keep_freed_memory(void)
{
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20); // the most that glibc accepts; blocks of arenas are smaller
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int main(int argc, char **argv)
{
  struct cli c = {.mem.lasting = true};
  keep_freed_memory();
  end_open();
  scratch_sweep();
  int status = with_stack(&c, argc, argv);
  if ((fflush(stdout) || ferror(stdout)) && !output_unread()) status = err_set(&c.err, ERR_FILE, NOWHERE, "cannot write to standard output");
  if (c.err.id != ERR_NONE) show_error(&c);
  arena_close(&c.mem);
  return status;
}
