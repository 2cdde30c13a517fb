// world_gpu: programs of several devices on this machine's GPUs. One binary that needs the driver, NVRTC and, for what it is compared with, NCCL.
//
//   [MICA_NCCL=1] world_gpu [--gpus N] [--processes] [--quick] [--folder FOLDER]...
//
// The program first checks the exchanges of ranks on random data: every rank must have the bits of the sum in the order of ranks. Then one rank
// stays away. The other ranks must report this in time, and new ranks must work. At the end CUDA graphs of 100 all-reduces are timed, those of Mica
// and of NCCL alternately. A line has what, setting, median, least, most, unit and repeats. Its time is that of the slowest rank.
//
//   --processes       one process per rank instead of one thread per rank
//   --folder FOLDER   run a folder of `mica optimize --out` on random tensors, and compare the results with float64
//
// Exit status 1: a check failed.
#include "api/api.h"
#include "front/front.h"
#include "gpu/peers.h"
#include "cuda/driver.h"
#include "cuda/nccl.h"
#include "rt/rt.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GRAPH = 100, REPEATS = 15, MOST_REPEATS = 32, MOST_FOLDERS = 8, SECONDS = 20, AWAY_SECONDS = 2 };

struct shared { // shared by all ranks, also by processes
  struct m_exchange sync;
  char room[M_EXCHANGE];
  double seconds[MEETING_MOST_RANKS][MOST_REPEATS];
  long long wrong[MEETING_MOST_RANKS];
  uint64_t digest[MEETING_MOST_RANKS];
  int failed[MEETING_MOST_RANKS];
  struct nccl_id id;
  _Alignas(
      64) char host[16][M_EXCHANGE + MEETING_MOST_RANKS * 2 *
                                         GPU_PEERS_ENTRY]; // memory in which peers exchange addresses: a new entry for each exchange that is opened
};
static struct shared *all;
static int ranks;
static bool quick, processes;
static const char *folder[MOST_FOLDERS];
static int nfolders;

struct rank {
  int rank, ways; // ways: exchanges opened
  struct gpu *g;
  struct arena mem;
  struct nvrtc *r;
  struct nccl nccl;
  void *comm;
  struct err e;
};

static _Noreturn void stop(const struct rank *r, const char *what)
{
  fprintf(stderr, "world_gpu: rank %d: %s: %s %s\n", r->rank, what, r->e.text, r->e.hint);
  fflush(stdout);
  _exit(3);
}
#define MUST(call)                    \
  do {                                \
    if ((call) != OK) stop(r, #call); \
  } while (0)

static void sync_all(const struct rank *r)
{
  if (m_meet(&all->sync, r->rank)) fprintf(stderr, "world_gpu: rank %d waits in vain\n", r->rank), _exit(3);
}

// ---- exchanges ----

static float value(int rank, int64_t i, int turn)
{
  uint32_t h = (uint32_t)rank * 0x9e3779b9u ^ (uint32_t)i * 0x85ebca6bu ^ (uint32_t)turn * 0xc2b2ae35u;
  h ^= h >> 15, h *= 0x2c1b3c6du, h ^= h >> 12, h *= 0x297a2d39u, h ^= h >> 15;
  const float x = ldexpf((float)(h & 0xff) - 127.5f, (int)(h >> 8 & 7) - 8);
  uint16_t half;
  num_write(BF16, &half, 0, (double)x);
  return (float)num_read(BF16, &half, 0);
}

struct made { // an exchange that can be launched
  struct meeting m;
  struct gpu_module *module;
  struct gpu_kernel *kernel, *local;
  int64_t blocks, in, out; // elements
  gpu_address x, y;
  struct gpu_peers *peers;
};

static void open_way(struct rank *r, const struct meeting_room *room, int64_t gathered, double seconds, struct gpu_peers **out)
{
  struct m_exchange *host = (struct m_exchange *)all->host[r->ways++ % 16];
  if (!r->rank) memset(host, 0, sizeof all->host[0]), host->ranks = (uint32_t)ranks, host->patience = (uint64_t)60e9;
  sync_all(r);
  const struct gpu_peers_wish w = {host, r->rank, ranks, meeting_memory(ranks, room), gathered, seconds};
  MUST(gpu_peers_open(r->g, &w, out, &r->e));
}

static void make(struct rank *r, const struct meeting *m, double seconds, struct made *out)
{
  struct meeting_room room = {0};
  struct str s = {0};
  struct cubin c;
  *out = (struct made){.m = *m, .blocks = meeting_blocks(m, gpu_facts(r->g)->processors)};
  out->in = m->outer * m->inner * (m->how == MEETING_SCATTER ? ranks : 1), out->out = m->outer * m->inner * (m->how == MEETING_GATHER ? ranks : 1);
  meeting_room(m, &room);
  meeting_print(m, &room, "exchange", &s);
  MUST(nvrtc_compile(r->r, &r->mem, "exchange", str_text(&s), gpu_facts(r->g)->arch, &c, &r->e));
  MUST(gpu_load(r->g, &c, &out->module, &r->e));
  MUST(gpu_find(out->module, "exchange", 0, 1, &out->kernel, &r->e));
  MUST(gpu_find(out->module, "exchange_local", 0, 1, &out->local, &r->e));
  MUST(gpu_alloc(r->g, (size_t)out->in * 2, &out->x, &r->e));
  MUST(gpu_alloc(r->g, (size_t)out->out * 2, &out->y, &r->e));
  str_free(&s);
  open_way(r, &room, meeting_bytes(m) * ranks, seconds, &out->peers);
}

static void drop(struct rank *r, struct made *x)
{
  sync_all(r);
  gpu_peers_close(x->peers);
  gpu_free(r->g, x->x), gpu_free(r->g, x->y);
  gpu_unload(x->module);
  sync_all(r);
}

static void launch(struct rank *r, const struct made *x)
{
  void *args[] = {(void *)&x->x, (void *)&x->y, (void *)gpu_peers_world(x->peers)};
  gpu_address all_of_them;
  void *local[] = {&all_of_them, (void *)&x->y, (void *)&r->rank};
  if (!gpu_peers_direct(x->peers)) MUST(gpu_peers_gather(x->peers, x->x, meeting_bytes(&x->m), r->g->stream, &all_of_them, &r->e));
  const bool direct = gpu_peers_direct(x->peers);
  MUST(gpu_launch(r->g, &(struct gpu_launch){direct ? x->kernel : x->local, x->blocks, MEETING_THREADS, false, direct ? args : local}, &r->e));
}

static int64_t from(const struct meeting *m, int rank, int64_t e)
{
  return m->how == MEETING_SCATTER ? (e / m->inner * ranks + rank) * m->inner + e % m->inner : e;
}

// The expected value of element e of the rank's result.
static float wanted(const struct meeting *m, int rank, int64_t e, int turn)
{
  uint16_t half;
  float sum = 0;
  if (m->how == MEETING_GATHER) {
    const int64_t piece = e / m->inner;
    return value((int)(piece % ranks), piece / ranks * m->inner + e % m->inner, turn);
  }
  for (int k = 0; k < ranks; k++) sum = k ? sum + value(k, from(m, rank, e), turn) : value(k, from(m, rank, e), turn);
  num_write(BF16, &half, 0, (double)sum);
  return (float)num_read(BF16, &half, 0);
}

static long long check_turn(struct rank *r, const struct made *x, uint16_t *data, int turn)
{
  long long wrong = 0;
  for (int64_t i = 0; i < x->in; i++) num_write(BF16, data, i, (double)value(r->rank, i, turn));
  MUST(gpu_write(r->g, x->x, data, (size_t)x->in * 2, &r->e));
  launch(r, x);
  MUST(gpu_read(r->g, data, x->y, (size_t)x->out * 2, &r->e));
  for (int64_t i = 0; i < x->out; i++) wrong += (float)num_read(BF16, data, i) != wanted(&x->m, r->rank, i, turn);
  all->digest[r->rank] = hash_bytes(data, (size_t)x->out * 2, (uint64_t)turn);
  MUST(gpu_peers_told(x->peers, &r->e));
  return wrong;
}

static bool fine = true;

static void check(struct rank *r, enum meeting_how how, int64_t outer, int64_t inner, int turns)
{
  const struct meeting m = {how, ranks, TT_BF16, outer, inner};
  struct made x;
  make(r, &m, SECONDS, &x);
  uint16_t *data = malloc((size_t)MAX(x.in, x.out) * 2);
  bool same = true;
  long long wrong = 0;
  for (int t = 0; t < turns; t++) {
    wrong += check_turn(r, &x, data, t);
    if (how != MEETING_SUM) continue;
    sync_all(r);
    for (int k = 1; k < ranks; k++) same &= all->digest[k] == all->digest[0];
    sync_all(r);
  }
  all->wrong[r->rank] = wrong;
  free(data);
  drop(r, &x);
  wrong = 0;
  for (int k = 0; k < ranks; k++) wrong += all->wrong[k];
  fine &= same && !wrong;
  if (r->rank) return;
  printf("checked,\"%d GPUs; %s; %lld x %lld bf16; %s; %lld blocks; %d turns; %s\",%lld,%lld,%lld,wrong values,1\n", ranks, meeting_name(how),
         (long long)outer, (long long)inner, meeting_small(&m) ? "words" : "slots", (long long)x.blocks, turns,
         same ? "the same bits on all ranks" : "OTHER BITS", wrong, wrong, wrong);
  fflush(stdout);
}

// Tests a missing rank: the last rank makes no call. The others must end in time, and new ranks must work.
static void check_away(struct rank *r)
{
  const struct meeting m = {MEETING_SUM, ranks, TT_BF16, 1, 4096};
  struct made x;
  struct err told = {0};
  make(r, &m, AWAY_SECONDS, &x);
  if (!gpu_peers_direct(x.peers)) { // NCCL would wait forever
    drop(r, &x);
    return;
  }
  const double start = now_seconds();
  if (r->rank < ranks - 1) {
    for (int i = 0; i < 3; i++) launch(r, &x);
    MUST(gpu_wait(r->g, &r->e));
    all->failed[r->rank] = gpu_peers_told(x.peers, &told) != OK;
  } else
    all->failed[r->rank] = 1;
  const double seconds = now_seconds() - start;
  drop(r, &x);
  int failed = 0;
  for (int k = 0; k < ranks; k++) failed += all->failed[k];
  fine &= failed == ranks && seconds < 3 * AWAY_SECONDS;
  if (!r->rank)
    printf("away,\"%d GPUs; the last rank stays away: %d of %d others said: %s\",%.3f,%.3f,%.3f,s,1\n", ranks, failed - 1, ranks - 1, told.text,
           seconds, seconds, seconds);
  check(r, MEETING_SUM, 1, 4096, 3);
}

// ---- times ----

static int by_value(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static void tell(const struct rank *r, const char *what, int64_t n, const char *how, int repeats)
{
  double t[MOST_REPEATS];
  sync_all(r);
  for (int i = 0; i < repeats && !r->rank; i++) {
    t[i] = 0;
    for (int k = 0; k < ranks; k++) t[i] = fmax(t[i], all->seconds[k][i]);
  }
  if (!r->rank) {
    qsort(t, (size_t)repeats, sizeof *t, by_value);
    char size[40] = "";
    if (n) snprintf(size, sizeof size, "%lld bf16; ", (long long)n);
    printf("%s,\"%d GPUs; %s%s\",%.3f,%.3f,%.3f,us,%d\n", what, ranks, size, how, 1e6 * t[repeats / 2] / GRAPH, 1e6 * t[0] / GRAPH,
           1e6 * t[repeats - 1] / GRAPH, repeats);
    fflush(stdout);
  }
  sync_all(r);
}

static void time_graph(struct rank *r, const struct gpu_graph *graph, int i)
{
  sync_all(r);
  MUST(gpu_time(r->g, graph, &all->seconds[r->rank][i], &r->e));
}

static struct gpu_graph *ours(struct rank *r, const struct made *x)
{
  struct gpu_graph *graph;
  MUST(gpu_record(r->g, &r->e));
  for (int i = 0; i < GRAPH; i++) launch(r, x);
  MUST(gpu_record_end(r->g, &graph, &r->e));
  return graph;
}

static struct gpu_graph *theirs(struct rank *r, const struct made *x)
{
  struct gpu_graph *graph;
  const void *a = (const void *)(uintptr_t)x->x;
  void *b = (void *)(uintptr_t)x->y;
  const int first = r->nccl.all_reduce(a, b, (size_t)x->in, NCCL_BF16, NCCL_SUM, r->comm, r->g->stream);
  MUST(nccl_taken(&r->nccl, r->comm, first, NULL, &r->e, "the first"));
  MUST(gpu_wait(r->g, &r->e));
  MUST(gpu_record(r->g, &r->e));
  for (int i = 0; i < GRAPH; i++)
    MUST(nccl_check(&r->nccl, r->nccl.all_reduce(a, b, (size_t)x->in, NCCL_BF16, NCCL_SUM, r->comm, r->g->stream), &r->e, "recorded"));
  MUST(gpu_record_end(r->g, &graph, &r->e));
  return graph;
}

static void time_sum(struct rank *r, int64_t n)
{
  const struct meeting m = {MEETING_SUM, ranks, TT_BF16, 1, n};
  const int repeats = quick ? 5 : REPEATS;
  struct made x;
  char how[64];
  make(r, &m, SECONDS, &x);
  MUST(gpu_fill(r->g, x.x, 0, (size_t)x.in * 2, &r->e));
  struct gpu_graph *graph[2] = {ours(r, &x), r->comm ? theirs(r, &x) : NULL};
  snprintf(how, sizeof how, "ours, %s, %lld blocks, in a CUDA graph", meeting_small(&m) ? "words" : "slots", (long long)x.blocks);
  for (int k = 0; k < 2; k++) {
    for (int i = -3; i < repeats && graph[k]; i++) time_graph(r, graph[k], MAX(i, 0));
    if (graph[k]) tell(r, "all-reduce", n, k ? "NCCL in a CUDA graph" : how, repeats);
    gpu_graph_close(graph[k]);
  }
  MUST(gpu_peers_told(x.peers, &r->e));
  drop(r, &x);
}

static void join_nccl(struct rank *r)
{
  int version = 0;
  if (nccl_find(&r->nccl, &r->e)) {
    if (!r->rank) printf("# no NCCL: %s\n", r->e.text);
    r->e = (struct err){0};
    return;
  }
  if (!r->rank) MUST(nccl_check(&r->nccl, r->nccl.get_id(&all->id), &r->e, "naming"));
  sync_all(r);
  MUST(nccl_join(&r->nccl, ranks, &all->id, r->rank, &(struct patience){.until = now_seconds() + 60}, &r->comm, &r->e));
  r->nccl.get_version(&version);
  if (!r->rank) printf("# NCCL %d\n", version);
}

// ---- saved programs ----

struct parts {
  const struct ranks_form *f;
  void **in, **out; // on the host: parts; whole results
  gpu_address *from, *to;
};

static size_t part_bytes(const struct ranks_tensor *x) { return (size_t)(x->outer * x->inner); }

static void cut(struct rank *r, const struct buffers *b, struct parts *p)
{
  p->from = NEWS(&r->mem, gpu_address, p->f->nin + 1), p->to = NEWS(&r->mem, gpu_address, p->f->nout + 1);
  for (int i = 0; i < p->f->nin; i++) {
    const struct ranks_tensor *x = &p->f->in[i];
    void *own = malloc(part_bytes(x));
    if (x->divided)
      ranks_part(x, ranks, r->rank, b->in[i], own, false);
    else
      memcpy(own, b->in[i], part_bytes(x));
    MUST(gpu_alloc(r->g, part_bytes(x), &p->from[i], &r->e));
    MUST(gpu_write(r->g, p->from[i], own, part_bytes(x), &r->e));
    free(own);
  }
  for (int i = 0; i < p->f->nout; i++) MUST(gpu_alloc(r->g, part_bytes(&p->f->out[i]), &p->to[i], &r->e));
}

// Inserts the rank's results into whole tensors. Other ranks' parts come from the reference, so only this rank's part can differ.
static long long check_program(struct rank *r, const struct problem *p, struct parts *x)
{
  struct check_answer a;
  long long wrong = 0;
  for (int i = 0; i < x->f->nout; i++) {
    const struct ranks_tensor *t = &x->f->out[i];
    void *own = malloc(part_bytes(t)), *whole = malloc(p->b->out_bytes[i]);
    const struct tensor *of = &p->g->tensors[p->outs[i]];
    MUST(gpu_read(r->g, own, x->to[i], part_bytes(t), &r->e));
    for (int64_t e = 0; e < shape_size(&of->shape); e++) num_write(of->dtype, whole, e, p->r.value[p->outs[i]][e]);
    ranks_part(t, t->divided ? ranks : 1, t->divided ? r->rank : 0, whole, own, true);
    x->out[i] = whole;
    all->digest[r->rank] = t->divided ? 0 : hash_bytes(own, part_bytes(t), 1);
    sync_all(r);
    for (int k = 0; k < ranks; k++) wrong += all->digest[k] != all->digest[0];
    sync_all(r);
    free(own);
  }
  struct err e = {0};
  if (check_outputs(p, x->out, &a, &e) != OK) wrong++, fprintf(stderr, "rank %d: %s\n", r->rank, e.text);
  for (int i = 0; i < x->f->nout; i++) free(x->out[i]);
  if (!r->rank) printf("# relative error %.3g\n", a.relative);
  return wrong;
}

static struct mica_module *opened[MEETING_MOST_RANKS]; // opened by the first thread, if ranks are threads

static void run_folder(struct rank *r, const char *path)
{
  const int repeats = quick ? 5 : REPEATS;
  struct mica_context *m = NULL;
  struct mica_module *whole = NULL, *f;
  struct graph *program, *g;
  struct problem p = {0};
  char name[64], file[512];
  if (!r->rank || processes) {
    m = mica_open();
    if (mica_module_load(m, path, &whole)) snprintf(r->e.text, sizeof r->e.text, "%s", mica_error(m)), stop(r, path);
  }
  snprintf(name, sizeof name, "world-gpu-%d", (int)getppid());
  for (int k = 0; k < ranks && whole; k++)
    if ((!processes || k == r->rank) && mica_module_rank(whole, k, processes ? name : NULL, SECONDS, &opened[k]))
      snprintf(r->e.text, sizeof r->e.text, "%s", mica_error(m)), stop(r, path);
  sync_all(r);
  f = opened[r->rank];
  snprintf(file, sizeof file, "%s/program.mica", path);
  MUST(load_file(&r->mem, file, 0, NULL, &program, &r->e));
  MUST(graph_expand(&r->mem, program, true, &g, &r->e));
  struct parts x = {.f = ranks_form_of(&r->mem, g)};
  x.out = NEWS(&r->mem, void *, x.f->nout + 1);
  MUST(graph_unfold(&r->mem, g, &g, &r->e));
  MUST(problem_open(&p, &r->mem, g, &(struct problem_wish){7}, &r->e));
  cut(r, p.b, &x);
  void **in = NEWS(&r->mem, void *, x.f->nin + 1), **out = NEWS(&r->mem, void *, x.f->nout + 1);
  for (int i = 0; i < x.f->nin; i++) in[i] = (void *)(uintptr_t)x.from[i];
  for (int i = 0; i < x.f->nout; i++) out[i] = (void *)(uintptr_t)x.to[i];
  for (int turn = 0; turn < 3; turn++)
    if (mica_module_call(f, (const void *const *)in, out, NULL, r->g->stream)) snprintf(r->e.text, sizeof r->e.text, "a call failed"), stop(r, path);
  MUST(gpu_wait(r->g, &r->e));
  all->wrong[r->rank] = check_program(r, &p, &x);
  struct gpu_graph *graph;
  MUST(gpu_record(r->g, &r->e));
  for (int i = 0; i < GRAPH; i++)
    if (mica_module_call(f, (const void *const *)in, out, NULL, r->g->stream)) stop(r, "a call while a graph is recorded");
  MUST(gpu_record_end(r->g, &graph, &r->e));
  for (int i = -3; i < repeats; i++) time_graph(r, graph, MAX(i, 0));
  tell(r, "program", 0, path, repeats);
  gpu_graph_close(graph);
  long long wrong = 0;
  for (int k = 0; k < ranks; k++) wrong += all->wrong[k];
  fine &= !wrong;
  if (!r->rank)
    printf("checked,\"%d GPUs; %s; %s a rank\",%lld,%lld,%lld,wrong results,1\n", ranks, path, processes ? "a process" : "a thread", wrong, wrong,
           wrong);
  problem_close(&p);
  sync_all(r);
  if (m) mica_close(m);
  sync_all(r);
}

// ---- ranks ----

static void *work(void *arg)
{
  struct rank own = {.rank = *(int *)arg}, *r = &own;
  MUST(gpu_open(r->rank, &r->g, &r->e));
  MUST(nvrtc_open(&r->r, &r->e));
  if (!r->rank)
    printf("# %d x %s, a %s a rank; bench/world_gpu.c\nwhat,setting,median,least,most,unit,repeats\n", ranks, gpu_facts(r->g)->name,
           processes ? "process" : "thread");
  const int many = quick ? 20 : 300;
  check(r, MEETING_SUM, 1, 4096, many), check(r, MEETING_SUM, 1, 5, many), check(r, MEETING_SUM, 1, 65536, 20);
  check(r, MEETING_SUM, 1, 1 << 20, 5), check(r, MEETING_SUM, 1, (1 << 20) + 8, 2), check(r, MEETING_SUM, 1, 1 << 24, 1);
  check(r, MEETING_GATHER, 4, 1000, 20), check(r, MEETING_GATHER, 16, 1 << 16, 3), check(r, MEETING_SCATTER, 4, 1000, 20),
      check(r, MEETING_SCATTER, 16, 1 << 16, 3);
  check_away(r);
  join_nccl(r);
  static const int64_t sizes[] = {4096, 16384, 65536, 131072, 262144, 524288, 1 << 20, 1 << 22, 1 << 24};
  for (size_t i = 0; i < COUNT(sizes); i++) time_sum(r, sizes[i]);
  for (int i = 0; i < nfolders; i++) run_folder(r, folder[i]);
  sync_all(r);
  if (r->comm) r->nccl.leave(r->comm);
  nvrtc_close(r->r);
  gpu_close(r->g);
  arena_close(&r->mem);
  return NULL;
}

static int as_threads(int *number)
{
  pthread_t t[MEETING_MOST_RANKS];
  for (int i = 1; i < ranks; i++) pthread_create(&t[i], NULL, work, &number[i]);
  work(&number[0]);
  for (int i = 1; i < ranks; i++) pthread_join(t[i], NULL);
  return !fine;
}

static int as_processes(int *number)
{
  pid_t pid[MEETING_MOST_RANKS];
  int status, worst = 0;
  for (int i = 0; i < ranks; i++)
    if (!(pid[i] = fork())) work(&number[i]), fflush(stdout), _exit(!fine);
  for (int i = 0; i < ranks; i++) waitpid(pid[i], &status, 0), worst = MAX(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  return worst;
}

int main(int argc, char **argv)
{
  int number[MEETING_MOST_RANKS];
  ranks = 2;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--quick"))
      quick = true;
    else if (!strcmp(argv[i], "--processes"))
      processes = true;
    else if (!strcmp(argv[i], "--gpus") && i + 1 < argc)
      ranks = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--folder") && i + 1 < argc && nfolders < MOST_FOLDERS)
      folder[nfolders++] = argv[++i];
    else
      return fprintf(stderr, "world_gpu: --gpus N, --processes, --quick, --folder FOLDER\n"), 2;
  }
  if (ranks < 2 || ranks > MEETING_MOST_RANKS) return fprintf(stderr, "world_gpu: 2 to %d GPUs\n", MEETING_MOST_RANKS), 2;
  setenv("NCCL_NVLS_ENABLE", "0", 0); // no multicast
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return 3;
  all->sync.ranks = (uint32_t)ranks, all->sync.patience = (uint64_t)120e9;
  for (int i = 0; i < ranks; i++) number[i] = i;
  return processes ? as_processes(number) : as_threads(number);
}
