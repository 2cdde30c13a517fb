// mica.hpp: every class is used once, objects outlive their context's handle, and errors are exceptions.
#include "mica.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

static void expect(bool good, const char *what)
{
  if (good) return;
  std::printf("FAILED: %s\n", what);
  std::exit(1);
}

static mica::Module made(const char *folder)
{
  mica::Context m;
  mica::Graph g = m.graph("soft");
  const int x = g.input("X", MICA_F32, {8, 64});
  const int y = g.op("softmax", {x}, "dim=1");
  expect(g.tensor(y).elements() == 512, "a shape");
  g.output(y);
  const mica::Program p = g.program(), q = m.load_text("program soft(n = 64) {\n  X: f32[8, n]\n  E = exp(X)\n  return E / sum(E, dim=1)\n}");
  expect(p.inputs().size() == 1 && p.inputs()[0].name == "X" && p.outputs()[0].shape == std::vector<int64_t>({8, 64}), "a signature");
  expect(p.text().find("softmax") != std::string::npos && p.name() == "soft", "a text");
  std::string certificate;
  expect(m.verify(p, q, 1, &certificate) && certificate.find("proved") != std::string::npos, "equal programs");
  expect(!m.verify(p, m.load_text("program s() {\n  X: f32[8, 64]\n  return exp(X)\n}")), "programs that are not equal");
  mica_options o = m.options();
  o.remember = false, o.measure = 1, o.seconds = 0.05;
  const mica::Report r = m.optimize(q, o);
  expect(r.text().find("op-by-op") != std::string::npos && r.json()[0] == '{' && r.html().find("<html") != std::string::npos && !r.recalled(), "a report");
  r.save(folder);
  return m.module(r); // the context goes on as long as the module
}

static void run(const mica::Module &f)
{
  std::vector<float> x(512, 1.5f), y(512);
  f({x.data()}, {y.data()});
  for (float v : y) expect(std::fabs(v - 1 / 64.0f) < 1e-6f, "a result");
}

template <class Call> static void fails(mica_status status, const char *text, Call call)
{
  try {
    call();
  } catch (const mica::Error &e) {
    expect(e.status() == status && std::string(e.what()).find(text) != std::string::npos, e.what());
    return;
  }
  expect(false, text);
}

int main(int argc, char **argv)
{
  if (argc < 2) return 2;
  mica::Module f = made(argv[1]);
  expect(f.world() == 1, "one device");
  fails(MICA_USER, "program of one device", [&] { f.rank(0); });
  expect(f.target() == "cpu" && f.inputs()[0].dtype == MICA_F32 && f.outputs().size() == 1, "a module");
  f.prepare();
  run(f);
  mica::Context m;
  run(m.load_module(argv[1]));
  fails(MICA_USER, "takes 1 addresses", [&] { f({}, {}); });
  fails(MICA_USER, "2 | ", [&] { m.load_text("program p() {\n  X: f32[0]\n  return X\n}"); });
  fails(MICA_ENVIRONMENT, "absent", [&] { m.load("absent.mica"); });
  std::puts("fine");
}
