// include/mica.h as C++17 sees it: it compiles without warnings, links with libmica, and does what it does in C. Several contexts in
// several threads, each with a program of its own.
#include <mica.h>
#include <mica.h> // twice does no harm

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct closes {
  void operator()(mica_context *m) const { mica_close(m); }
};

static std::string built(int rows)
{
  std::unique_ptr<mica_context, closes> m(mica_open());
  mica_graph *g = nullptr;
  mica_program *p = nullptr;
  const char *text = nullptr;
  const int64_t shape[] = {rows, 16};
  int x, e, sum, y;
  if (mica_graph_open(m.get(), "soft", &g) || mica_graph_input(g, "X", MICA_F32, 2, shape, &x)) return mica_error(m.get());
  if (mica_graph_op(g, "exp", 1, &x, nullptr, &e, nullptr) || mica_graph_op(g, "sum", 1, &e, "dim=1", &sum, nullptr)) return mica_error(m.get());
  const int both[] = {e, sum};
  if (mica_graph_op(g, "div", 2, both, "", &y, nullptr) || mica_graph_output(g, y)) return mica_error(m.get());
  if (mica_graph_program(g, &p) || mica_program_text(m.get(), p, &text)) return mica_error(m.get());
  mica_tensor out = mica_program_output(p, 0);
  return out.ndim == 2 && out.shape[0] == rows && out.dtype == MICA_F32 ? text : "another shape";
}

static bool fails(int rows)
{
  std::unique_ptr<mica_context, closes> m(mica_open());
  mica_program *p = nullptr;
  const std::string text = "program p() {\n  X: f32[" + std::to_string(rows) + ", 2]\n  return sum(X, dim=7)\n}\n";
  const std::string name = "p" + std::to_string(rows);
  return mica_load_text(m.get(), text.c_str(), name.c_str(), 0, nullptr, &p) == MICA_USER && std::strstr(mica_error(m.get()), (name + ":3:").c_str());
}

int main()
{
  if (mica_abi_version() != MICA_ABI_VERSION) return std::puts("another version"), 1;
  mica_options o = mica_options_default();
  if (o.size != sizeof o || std::strcmp(o.target, "cpu")) return std::puts("other options"), 1;
  std::vector<std::thread> threads;
  std::vector<int> bad(4);
  for (size_t i = 0; i < bad.size(); i++)
    threads.emplace_back([i, &bad] {
      for (int k = 1; k <= 20; k++) {
        const int rows = static_cast<int>(i) * 100 + k;
        bad[i] += built(rows).find("f32[" + std::to_string(rows) + ", 16]") == std::string::npos;
        bad[i] += !fails(rows);
      }
    });
  for (auto &t : threads) t.join();
  for (int b : bad)
    if (b) return std::printf("%d wrong answers: %s\n", b, built(8).c_str()), 1;
  std::puts("fine");
}
