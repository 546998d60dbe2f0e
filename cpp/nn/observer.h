// Values inside a module, seen and replaced while it computes: what qkv.look records and changes.
#pragma once

#include <array>
#include <bitset>
#include <functional>
#include <initializer_list>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/noncopyable.h"
#include "nn/module.h"
#include "ops/attention/weight_rows.h"

namespace qkv::nn {

// Of any module input and output, of an attention the others, too; in the order in which names list them.
enum class Point : unsigned char { input, queries, keys, values, scores, weights, heads, output };
inline constexpr std::array kPointNames = {"input",  "queries", "keys",  "values",
                                           "scores", "weights", "heads", "output"};
using Points = std::bitset<kPointNames.size()>;

// What remains of a call of an attention, from which weights and scores are computed when they are read. It does not
// change any more, and nobody can write to what it holds.
class KeptAttention {
 public:
  virtual ~KeptAttention() = default;
  virtual Array weights() const = 0;
  virtual Array scores() const { return {}; }  // where nothing keeps them
  // Of weights (B, H, Lq, Lk), without storing these.
  virtual Shape shape() const = 0;
  virtual Array measures(const ops::MeasureInputs& inputs) const = 0;
  virtual Array image(const ops::ImageOptions& image) const = 0;  // (B, H, height, width)
  virtual Array rows(const ops::HeadRows& rows) const = 0;        // of one head, at no other's cost
  virtual Index offset() const { return 0; }                      // query i is at key offset + i
  virtual Array real_keys() const { return {}; }                  // boolean (B, Lk): no padding; undefined: all
};

// Looks at points of modules in the calls of the thread that entered it, inside of those that entered before.
class Observer : NonCopyable {
 public:
  using Change = std::function<Tensor(const Tensor&)>;
  struct Observation {
    Index key;
    Point point;
    Tensors values;                             // several where a call returns several
    std::shared_ptr<const KeptAttention> kept;  // instead of values
  };

  // With `keep_graph` what is seen stays a part of the history of what is computed from it; else it is a copy.
  explicit Observer(bool keep_graph) : keep_graph_(keep_graph) {}
  ~Observer() { leave(); }

  // `key` is how the caller finds again what was seen.
  void record(Index key, const ModulePtr& module, Point point);
  void change(const ModulePtr& module, Point point, Change change);
  // Also keeps what each step of a model that writes chose, and so many of its likeliest tokens, after what that step
  // computed; its key is -1.
  void record_steps(Index candidates) { candidates_ = candidates; }
  // The most candidates that one of this thread wants of each step; -1: none looks at steps.
  static Index candidates();
  static void stepped(const Tensors& about);
  void enter();
  void leave();
  const std::vector<Observation>& seen() const { return seen_; }

  static bool any() { return innermost_ != nullptr; }

 private:
  friend class Watch;
  struct Asked {
    ModulePtr module;  // lives as long as its address is the key
    Index key = 0;
    Points recorded, changed;
    std::array<Change, kPointNames.size()> changes;
  };
  const Asked* of(const Module& module) const;

  const bool keep_graph_;
  std::unordered_map<const Module*, Asked> asked_;
  std::vector<Observation> seen_;
  Index candidates_ = -1;
  Observer* outer_ = nullptr;
  bool entered_ = false;
  static inline constinit thread_local Observer* innermost_ = nullptr;
};

// What this thread's observers ask of a module: false if that is nothing.
class Watch {
 public:
  explicit Watch(const Module& module) : module_(module) {
    if (Observer::any()) look();
  }
  explicit operator bool() const { return wanted_.any(); }
  bool wants(Point point) const { return wanted_[index(point)]; }
  // Whether the value itself has to be on the way to the result, because it is changed or kept with its history.
  bool moves(Point point) const { return moved_[index(point)]; }
  bool moves() const { return moved_.any(); }

  // x as all observers leave it, the outer ones first.
  Tensor through(Point point, const Tensor& x) const;
  // The same for the results of a call, of which the first may change.
  void through(Point point, std::span<Tensor* const> results) const;
  // Weights or scores that do not move.
  void record(Point point, const std::shared_ptr<const KeptAttention>& kept) const;

 private:
  static std::size_t index(Point point) { return static_cast<std::size_t>(point); }
  void look();
  template <class See> void recorded(Point point, See see) const;

  const Module& module_;
  Points wanted_, moved_;
};

// A call of a module whose input or output is asked for: false if it is not, or if this is what that call does itself.
// Each forward begins with
//     if (const Observed seen(*this); seen) return seen.call(x, [&](const Tensor& y) { return Linear::forward(y); });
class Observed {
 public:
  explicit Observed(const Module& module) : module_(&module), watch_(module) {}
  explicit operator bool() const {
    return (watch_.wants(Point::input) || watch_.wants(Point::output)) && innermost_ != module_;
  }
  template <class F> auto call(const Tensor& x, F f) const {
    Tensor y = inside(x, f);
    return watch_.through(Point::output, y);
  }
  // Of a call that returns several Tensors.
  template <class F, class Result>
  Result call(const Tensor& x, F f, std::initializer_list<Tensor Result::*> parts) const {
    Result y = inside(x, f);
    std::vector<Tensor*> results;
    for (Tensor Result::* part : parts) results.push_back(&(y.*part));
    watch_.through(Point::output, results);
    return y;
  }
  const Watch& watch() const { return watch_; }

  // While one lives, a call of the module is under way.
  class Inside : NonCopyable {
   public:
    explicit Inside(const Module* module) : outer_(std::exchange(innermost_, module)) {}
    ~Inside() { innermost_ = outer_; }

   private:
    const Module* const outer_;
  };

 private:
  template <class F> auto inside(const Tensor& x, F f) const {
    const Tensor input = watch_.through(Point::input, x);
    const Inside here(module_);
    return f(input);
  }

  const Module* const module_;
  const Watch watch_;
  static inline constinit thread_local const Module* innermost_ = nullptr;
};

// Whether a call of the module has to be made as such because its input or output moves.
inline bool called_alone(const Module& module) {
  if (!Observer::any()) return false;
  const Watch watch(module);
  return watch.moves(Point::input) || watch.moves(Point::output);
}

}  // namespace qkv::nn
