// Mica in C++17: mica.h with handles that close themselves, values in place of output arguments, and exceptions in place of statuses.
// This header is all there is; link with libmica. docs/library.md has an example.
//
//   mica::Context m;
//   mica::Program p = m.load("softmax.mica", {"m=64"});
//   mica::Report r = m.optimize(p);
//   mica::Module f = m.module(r);
//   f({x}, {y});
//
// Programs, graphs, reports and modules keep their context alive. One thread at a time uses a context and its objects, but for the calls
// of a module.
#ifndef MICA_HPP
#define MICA_HPP

#include "mica.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mica {

class Error : public std::runtime_error {
public:
  Error(int status, const std::string &text) : std::runtime_error(text), status_(static_cast<mica_status>(status)) {}
  mica_status status() const noexcept { return status_; } // MICA_USER: the program or an option is wrong; MICA_ENVIRONMENT: the machine

private:
  mica_status status_;
};

struct Tensor {
  std::string name;
  mica_dtype dtype;
  std::vector<int64_t> shape;
  static Tensor of(const mica_tensor &t) { return {t.name, t.dtype, {t.shape, t.shape + t.ndim}}; }
  int64_t elements() const noexcept
  {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
};

namespace detail {
using Handle = std::shared_ptr<mica_context>;

inline void check(const Handle &m, int status)
{
  if (status != MICA_OK) throw Error(status, mica_error(m.get()));
}

template <class Object> std::vector<Tensor> tensors(const Object *x, int n, mica_tensor (*get)(const Object *, int))
{
  std::vector<Tensor> out;
  for (int i = 0; i < n; i++) out.push_back(Tensor::of(get(x, i)));
  return out;
}
} // namespace detail

class Program {
public:
  std::string name() const { return mica_program_name(p_); }
  std::vector<Tensor> inputs() const { return detail::tensors(p_, mica_program_inputs(p_), mica_program_input); }
  std::vector<Tensor> outputs() const { return detail::tensors(p_, mica_program_outputs(p_), mica_program_output); }
  std::string text() const
  {
    const char *text;
    detail::check(m_, mica_program_text(m_.get(), p_, &text));
    return text;
  }
  const mica_program *get() const noexcept { return p_; }

private:
  friend class Context;
  friend class Graph;
  Program(detail::Handle m, mica_program *p) : m_(std::move(m)), p_(p) {}
  detail::Handle m_;
  mica_program *p_;
};

// A program that is built call by call. Tensors are numbers.
class Graph {
public:
  int input(const std::string &name, mica_dtype dtype, const std::vector<int64_t> &shape)
  {
    int t;
    detail::check(m_, mica_graph_input(g_, name.empty() ? nullptr : name.c_str(), dtype, static_cast<int>(shape.size()), shape.data(), &t));
    return t;
  }
  int op(const std::string &op, const std::vector<int> &arguments, const std::string &attributes = "")
  {
    int t, count;
    detail::check(m_, mica_graph_op(g_, op.c_str(), static_cast<int>(arguments.size()), arguments.data(), attributes.empty() ? nullptr : attributes.c_str(), &t, &count));
    return t;
  }
  void output(int t) { detail::check(m_, mica_graph_output(g_, t)); }
  Tensor tensor(int t) const
  {
    mica_tensor info;
    detail::check(m_, mica_graph_tensor(g_, t, &info));
    return Tensor::of(info);
  }
  Program program() const
  {
    mica_program *p;
    detail::check(m_, mica_graph_program(g_, &p));
    return {m_, p};
  }
  mica_graph *get() const noexcept { return g_; }

private:
  friend class Context;
  Graph(detail::Handle m, mica_graph *g) : m_(std::move(m)), g_(g) {}
  detail::Handle m_;
  mica_graph *g_;
};

class Report {
public:
  std::string text() const { return mica_report_text(r_); }
  std::string json() const { return mica_report_json(r_); }
  std::string html() const
  {
    const char *html;
    detail::check(m_, mica_report_html(m_.get(), r_, &html));
    return html;
  }
  bool recalled() const noexcept { return mica_report_recalled(r_); }
  void save(const std::string &folder) const { detail::check(m_, mica_report_save(m_.get(), r_, folder.c_str())); }
  const mica_report *get() const noexcept { return r_; }

private:
  friend class Context;
  Report(detail::Handle m, mica_report *r) : m_(std::move(m)), r_(r) {}
  detail::Handle m_;
  mica_report *r_;
};

// A program that runs. Calls may come from any number of threads.
class Module {
public:
  std::string target() const { return mica_module_target(x_.get()); }
  std::vector<Tensor> inputs() const { return detail::tensors<mica_module>(x_.get(), mica_module_inputs(x_.get()), mica_module_input); }
  std::vector<Tensor> outputs() const { return detail::tensors<mica_module>(x_.get(), mica_module_outputs(x_.get()), mica_module_output); }
  int64_t workspace() const noexcept { return mica_module_workspace(x_.get()); }
  void prepare(void *workspace = nullptr, void *stream = nullptr) { done(mica_module_prepare(x_.get(), workspace, stream), "preparing"); }
  // Addresses of all inputs and outputs, in order; of the host, or for a GPU of the device.
  void operator()(const std::vector<const void *> &inputs, const std::vector<void *> &outputs, void *stream = nullptr, void *workspace = nullptr) const
  {
    if (static_cast<int>(inputs.size()) != mica_module_inputs(x_.get()) || static_cast<int>(outputs.size()) != mica_module_outputs(x_.get()))
      throw Error(MICA_USER, "a call of " + std::string(mica_module_name(x_.get())) + " takes " + std::to_string(mica_module_inputs(x_.get())) +
                                 " addresses of inputs and " + std::to_string(mica_module_outputs(x_.get())) + " of outputs");
    done(mica_module_call(x_.get(), inputs.data(), outputs.data(), workspace, stream), "calling");
  }
  // A module that computes once what follows from frozen inputs alone: mica_module_freeze.
  Module freeze(const std::vector<const void *> &inputs) const
  {
    if (static_cast<int>(inputs.size()) != mica_module_inputs(x_.get()))
      throw Error(MICA_USER, "freezing " + std::string(mica_module_name(x_.get())) + " takes " + std::to_string(mica_module_inputs(x_.get())) +
                                 " addresses of inputs");
    mica_module *out = nullptr;
    detail::check(m_, mica_module_freeze(x_.get(), inputs.data(), &out));
    return Module(m_, out);
  }
  int world() const noexcept { return mica_module_world(x_.get()); } // devices; 1: it is a program of one
  // One rank of several devices, on its parts of the tensors. name: of the world, for a process a rank; "": for a thread a rank.
  Module rank(int number, const std::string &name = {}, double seconds = 0) const
  {
    mica_module *out = nullptr;
    detail::check(m_, mica_module_rank(x_.get(), number, name.empty() ? nullptr : name.c_str(), seconds, &out));
    return Module(m_, out);
  }
  mica_module *get() const noexcept { return x_.get(); }

private:
  friend class Context;
  Module(detail::Handle m, mica_module *x) : m_(std::move(m)), x_(x, mica_module_close) {}
  void done(int status, const char *what) const
  {
    if (status != MICA_OK) throw Error(status, std::string(what) + " " + mica_module_name(x_.get()) + " failed");
  }
  detail::Handle m_; // is closed after the module
  std::shared_ptr<mica_module> x_;
};

class Context {
public:
  Context() : m_(mica_open(), mica_close)
  {
    if (mica_abi_version() != MICA_ABI_VERSION) throw Error(MICA_ENVIRONMENT, "libmica has another binary interface than mica.h");
    if (!m_) throw Error(MICA_ENVIRONMENT, "out of memory");
  }
  Program load(const std::string &path, const std::vector<std::string> &set = {}) const { return read(set, path.c_str(), nullptr); }
  Program load_text(const std::string &text, const std::string &name = "program", const std::vector<std::string> &set = {}) const
  {
    return read(set, name.c_str(), text.c_str());
  }
  Graph graph(const std::string &name) const
  {
    mica_graph *g;
    detail::check(m_, mica_graph_open(m_.get(), name.c_str(), &g));
    return {m_, g};
  }
  static mica_options options() { return mica_options_default(); }
  Report optimize(const Program &p, const mica_options &o = options()) const
  {
    mica_report *r = nullptr;
    detail::check(m_, mica_optimize(m_.get(), p.get(), &o, &r));
    return {m_, r};
  }
  Module module(const Report &r) const
  {
    mica_module *x;
    detail::check(m_, mica_module_of(m_.get(), r.get(), &x));
    return {m_, x};
  }
  Module load_module(const std::string &folder) const
  {
    mica_module *x;
    detail::check(m_, mica_module_load(m_.get(), folder.c_str(), &x));
    return {m_, x};
  }
  // Are they equal? The certificate, as JSON, in *certificate where it is given.
  bool verify(const Program &a, const Program &b, uint64_t seed = 1, std::string *certificate = nullptr) const
  {
    const char *json = nullptr;
    const int status = mica_verify(m_.get(), a.get(), b.get(), seed, &json);
    if (status != MICA_NO) detail::check(m_, status);
    if (certificate) *certificate = json ? json : "";
    return status == MICA_OK;
  }
  mica_context *get() const noexcept { return m_.get(); }

private:
  Program read(const std::vector<std::string> &set, const char *name, const char *text) const
  {
    std::vector<const char *> words;
    for (const std::string &s : set) words.push_back(s.c_str());
    mica_program *p;
    const int n = static_cast<int>(words.size());
    detail::check(m_, text ? mica_load_text(m_.get(), text, name, n, words.data(), &p) : mica_load(m_.get(), name, n, words.data(), &p));
    return {m_, p};
  }
  detail::Handle m_;
};

} // namespace mica
#endif
