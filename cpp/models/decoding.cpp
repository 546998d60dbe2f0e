#include "models/decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/parallel.h"

namespace qkv::models {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// log_probs (N, V) in float64 of scores (N, V), which are normalised unless they are already; NaN counts as no chance
// at all.
std::vector<double> log_probs_of(const Array& scores, bool normalised) {
  const Array x = scores.cast(DType::float64);
  const Index rows = x.dim(0), n = x.dim(1);
  std::vector<double> result(static_cast<std::size_t>(rows * n));
  for (Index r = 0; r < rows; ++r) {
    const double* from = x.data<double>() + r * n;
    double* to = result.data() + r * n;
    double largest = kNothing, sum = 0;
    for (Index i = 0; i < n; ++i)
      if (from[i] > largest) largest = from[i];
    for (Index i = 0; i < n; ++i) sum += from[i] >= kNothing ? std::exp(from[i] - largest) : 0;
    const double shift = normalised ? 0 : largest + std::log(sum);
    for (Index i = 0; i < n; ++i) to[i] = from[i] >= kNothing && shift > kNothing ? from[i] - shift : kNothing;
  }
  return result;
}

// A token drawn from the most likely ones. `order` is scratch.
Index sampled(const double* log_probs, Index n, const GenerateOptions& options, Generator& generator,
              std::vector<Index>& order) {
  order.resize(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  const auto better = [&](Index a, Index b) {
    return log_probs[a] != log_probs[b] ? log_probs[a] > log_probs[b] : a < b;
  };
  const Index most = std::min(n, options.top_k.value_or(n));
  if (options.top_p || most == n) std::sort(order.begin(), order.end(), better);
  else std::partial_sort(order.begin(), order.begin() + most, order.end(), better);
  const double best = log_probs[order[0]];
  std::vector<double> weights(static_cast<std::size_t>(most));
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    total += weights[i] = best > kNothing ? std::exp((log_probs[order[i]] - best) / options.temperature) : 1;
  std::size_t kept = weights.size();
  if (options.top_p) {  // the fewest whose probabilities reach top_p
    double sum = 0;
    for (kept = 0; kept < weights.size() && (kept == 0 || sum < *options.top_p * total); ++kept) sum += weights[kept];
    total = sum;
  }
  double draw = 0;
  generator.uniform<double>(&draw, 1, 0, 1);
  draw *= total;
  for (std::size_t i = 0; i + 1 < kept; ++i) {
    draw -= weights[i];
    if (draw < 0) return order[i];
  }
  return order[kept - 1];
}

Array row_of(const Array& matrix, Index row) {
  if (!matrix.defined()) return {};
  const Index n = matrix.dim(1) * item_size(matrix.dtype());
  Array result({matrix.dim(1)}, matrix.dtype());
  std::copy_n(static_cast<const char*>(matrix.raw()) + row * n, n, static_cast<char*>(result.raw()));
  return result;
}

}  // namespace

double Hypothesis::score(double length_penalty) const {
  return length_penalty == 0 || ids.empty() ? log_prob
                                            : log_prob / std::pow(static_cast<double>(ids.size()), length_penalty);
}

void Beam::place(Hypothesis hypothesis, Index parent) {
  if (std::find(ends_.begin(), ends_.end(), hypothesis.ids.back()) != ends_.end()) {
    done_.push_back(std::move(hypothesis));
    return;
  }
  live_.push_back(std::move(hypothesis));
  parents_.push_back(parent);
}

void Beam::advance(Index vocab, const std::function<const double*(Index)>& log_probs,
                   const std::function<Array(Index)>& attention) {
  struct Candidate {
    double log_prob;
    Index from, token;
    bool operator<(const Candidate& other) const {  // better first; ties go to the earlier hypothesis and token
      if (log_prob != other.log_prob) return log_prob > other.log_prob;
      return from != other.from ? from < other.from : token < other.token;
    }
  };
  const std::vector<Hypothesis> before = std::move(live_);
  live_.clear();
  parents_.clear();
  std::vector<Candidate> best;  // a heap whose first is the worst
  for (Index from = 0; from < static_cast<Index>(before.size()); ++from) {
    const double* row = log_probs(from);
    for (Index token = 0; token < vocab; ++token) {
      const double step = row[token] == row[token] ? row[token] : kNothing;
      const Candidate candidate{before[static_cast<std::size_t>(from)].log_prob + step, from, token};
      if (static_cast<Index>(best.size()) == size_) {
        if (!(candidate < best.front())) continue;
        std::pop_heap(best.begin(), best.end());
        best.back() = candidate;
      } else {
        best.push_back(candidate);
      }
      std::push_heap(best.begin(), best.end());
    }
  }
  std::sort(best.begin(), best.end());
  for (const Candidate& candidate : best) {
    Hypothesis next = before[static_cast<std::size_t>(candidate.from)];
    next.ids.push_back(candidate.token);
    next.log_prob = candidate.log_prob;
    if (Array row = attention(candidate.from); row.defined()) next.attention.push_back(std::move(row));
    place(std::move(next), candidate.from);
  }
}

void Beam::append(Index token, double log_prob, Array attention) {
  Hypothesis next = std::move(live_.at(0));
  live_.clear();
  parents_.clear();
  next.ids.push_back(token);
  next.log_prob += log_prob;
  if (attention.defined()) next.attention.push_back(std::move(attention));
  place(std::move(next), 0);
}

std::vector<Hypothesis> Beam::ranked(double length_penalty) const {
  std::vector<Hypothesis> all = done_;
  all.insert(all.end(), live_.begin(), live_.end());
  std::stable_sort(all.begin(), all.end(), [&](const Hypothesis& a, const Hypothesis& b) {
    return a.score(length_penalty) > b.score(length_penalty);
  });
  return all;
}

void check(const char* operation, const GenerateOptions& o) {
  if (o.max_len < 1) fail_value(operation, ": max_len must be at least 1; got ", o.max_len);
  if (o.beam_size < 1) fail_value(operation, ": beam_size must be at least 1; got ", o.beam_size);
  if (!std::isfinite(o.length_penalty))
    fail_value(operation, ": length_penalty must be a finite number; got ", o.length_penalty);
  if (!(o.temperature > 0) || !std::isfinite(o.temperature))
    fail_value(operation, ": temperature must be a positive number because logits are divided by it; got ",
               o.temperature);
  if (o.top_k && *o.top_k < 1) fail_value(operation, ": top_k must be at least 1; got ", *o.top_k);
  if (o.top_p && !(*o.top_p > 0 && *o.top_p <= 1))
    fail_value(operation, ": top_p must be above 0 and at most 1; got ", *o.top_p);
}

std::vector<std::vector<Hypothesis>> generate(Continuation& model, const Array& first, const GenerateOptions& options) {
  Generator& generator = options.generator != nullptr ? *options.generator : default_generator();
  const auto sentences = static_cast<std::size_t>(first.numel());
  std::vector<Beam> beams(sentences, Beam(options.method == Method::beam ? options.beam_size : 1, options.ends));
  std::vector<Index> order;
  // Of each row: its sentence. Rows of a sentence stand together, in the order of its live hypotheses.
  std::vector<std::size_t> rows(sentences);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  Array tokens = first.clone();
  for (Index step = 0; step < options.max_len && !rows.empty(); ++step) {
    throw_if_interrupted();
    const Array scores = model.step(tokens), attention = model.attention();
    const Index vocab = scores.dim(1);
    const std::vector<double> log_probs = log_probs_of(scores, options.normalised);
    std::vector<std::size_t> next_rows;
    std::vector<std::int64_t> from, last;
    Array chosen = Array::full({static_cast<Index>(sentences)}, DType::int64, -1);
    for (std::size_t r = 0; r < rows.size();) {
      Beam& beam = beams[rows[r]];
      const std::size_t count = beam.live().size(), begin = r;
      const auto row = [&](Index i) { return log_probs.data() + (static_cast<Index>(begin) + i) * vocab; };
      if (options.method == Method::sample) {
        const Index token = sampled(row(0), vocab, options, generator, order);
        beam.append(token, row(0)[token], row_of(attention, static_cast<Index>(begin)));
      } else {
        beam.advance(vocab, row, [&](Index i) { return row_of(attention, static_cast<Index>(begin) + i); });
      }
      chosen.data<std::int64_t>()[rows[begin]] = beam.latest();
      for (std::size_t i = 0; i < beam.live().size(); ++i) {
        next_rows.push_back(rows[begin]);
        from.push_back(static_cast<std::int64_t>(begin) + beam.parents()[i]);
        last.push_back(beam.live()[i].ids.back());
      }
      r += count;
    }
    if (options.method != Method::beam) model.chosen(chosen);
    const auto size = static_cast<Index>(from.size());
    const bool same = size == static_cast<Index>(rows.size()) && std::is_sorted(from.begin(), from.end()) &&
                      std::adjacent_find(from.begin(), from.end()) == from.end();
    tokens = Array({size}, DType::int64);
    std::copy(last.begin(), last.end(), tokens.data<std::int64_t>());
    if (!same && size > 0 && step + 1 < options.max_len) {
      Array indices({size}, DType::int64);
      std::copy(from.begin(), from.end(), indices.data<std::int64_t>());
      model.reorder(indices);
    }
    rows = std::move(next_rows);
  }
  std::vector<std::vector<Hypothesis>> result;
  for (const Beam& beam : beams) result.push_back(beam.ranked(options.length_penalty));
  return result;
}

}  // namespace qkv::models
