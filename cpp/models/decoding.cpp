#include "models/decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/kernels.h"
#include "nn/observer.h"
#include "ops/numbers.h"
#include "ops/ops.h"

namespace qkv::models {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// What a step says of the next tokens: scores (N, V) in float64, NaN as no chance at all, and for each row what makes
// its scores log-probabilities, which is 0 if they are already.
struct Scores {
  Array numbers;
  std::vector<double> shift;

  Scores(const Array& given, bool normalised)
      : numbers(given.dtype() == DType::float64 ? given.clone() : given.cast(DType::float64)),
        shift(static_cast<std::size_t>(given.dim(0))) {
    each_row([&](double* x, Index r, Index n) {
      for (Index i = 0; i < n; ++i)
        if (x[i] != x[i]) x[i] = kNothing;
      if (!normalised) kernels::kernels<double>().softmax.logsumexp(&shift[static_cast<std::size_t>(r)], x, 1, n);
    });
  }
  Index vocab() const { return numbers.dim(1); }
  double* row(Index r) const { return numbers.data<double>() + r * vocab(); }
  double log_prob(Index r, Index token) const {
    const double score = row(r)[token], less = shift[static_cast<std::size_t>(r)];
    return std::isfinite(less) && score > kNothing ? score - less : kNothing;
  }
  // body(row, its number, V), in parallel.
  template <class Body> void each_row(Body body) const {
    parallel_for(0, numbers.dim(0), grain_for(16 * vocab()), [&](Index begin, Index end) {
      for (Index r = begin; r < end; ++r) body(row(r), r, vocab());
    });
  }
};

// A token as the most likely ones are ordered: by scores, and of equal ones by numbers.
struct Ranked {
  double score;
  Index token;
  bool operator<(const Ranked& other) const {  // better
    return score != other.score ? score > other.score : token < other.token;
  }
};

// The last of the fewest best candidates whose weights reach `share` of all, by halves; few are put in order.
Ranked last_of_share(std::vector<Ranked> candidates, const double* weights, double share) {
  const auto weight = [=](const Ranked& one) { return weights[one.token]; };
  const auto sum = [=](auto begin, auto end) {
    double total = 0;
    for (; begin != end; ++begin) total += weight(*begin);
    return total;
  };
  auto begin = candidates.begin(), end = candidates.end();
  constexpr Index kFew = 1024;
  while (end - begin > kFew) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end);
    if (const double upper = sum(begin, middle); upper < share) {
      share -= upper;
      begin = middle;
    } else {
      end = middle;
    }
  }
  std::sort(begin, end);
  for (double total = weight(*begin); begin + 1 != end && total < share; total += weight(*begin)) ++begin;
  return *begin;
}

// The worst token that top_k and top_p leave.
Ranked last_kept(const double* scores, const double* weights, Index n, const GenerateOptions& options) {
  std::vector<Ranked> candidates;
  double total = 0;
  if (options.top_k && *options.top_k < n) {
    Array row({n}, DType::float64);
    std::copy_n(scores, n, row.data<double>());
    const Array places = ops::topk(Tensor(row), *options.top_k, 0, true);
    for (Index i = 0; i < places.numel(); ++i) {
      const Index token = places.data<std::int64_t>()[i];
      candidates.push_back({scores[token], token});
      total += weights[token];
    }
    if (!options.top_p) return candidates.back();
  } else {
    for (Index i = 0; i < n; ++i) total += weights[i];
    // All that weigh less weigh together less than what top_p leaves out.
    const double least = (1 - options.top_p.value_or(1)) * total / static_cast<double>(n);
    for (Index i = 0; i < n; ++i)
      if (weights[i] >= least) candidates.push_back({scores[i], i});
  }
  return last_of_share(std::move(candidates), weights, options.top_p.value_or(1) * total);
}

// A token that was drawn, and what of: exp((score - best) / temperature) / total of a token up to the last one.
struct Drawn {
  std::int64_t token = 0;
  double best = 0, total = 0;
  std::optional<Ranked> last = {};  // all
};

// The token up to which the weights of those that are kept, in the order of their numbers, first exceed `draw`, from 0
// to below 1, of their sum.
Drawn sampled(const double* scores, Index n, const GenerateOptions& options, double draw) {
  const Scratch scratch(static_cast<std::size_t>(n) * sizeof(double));
  double* weights = scratch.as<double>();
  const double best = *std::max_element(scores, scores + n);
  Drawn drawn{.best = best};
  for (Index i = 0; i < n; ++i) {
    const double apart = (scores[i] - best) / options.temperature;
    weights[i] = apart == apart ? apart : 0;  // equally infinite ones are equally likely
  }
  kernels::kernels<double>().elementwise.unary(kernels::Unary::exponential, weights, weights, n);
  if ((options.top_k && *options.top_k < n) || options.top_p.value_or(1) < 1) {
    drawn.last = last_kept(scores, weights, n, options);
    for (Index i = 0; i < n; ++i)
      if (*drawn.last < Ranked{scores[i], i}) weights[i] = 0;
  }
  std::partial_sum(weights, weights + n, weights);
  const double total = drawn.total = weights[n - 1], *found = std::upper_bound(weights, weights + n, draw * total);
  drawn.token = (found != weights + n ? found : std::lower_bound(weights, weights + n, total)) - weights;
  return drawn;
}

// What an observer of steps sees: the sentence of each row (N), ids (N, 1 + top), the chosen one and the likeliest, and
// their probabilities by the scores and in what was drawn from, which is the same where nothing was.
Tensors step_of(const Scores& scores, const std::vector<std::size_t>& rows, const std::vector<Drawn>& drawn, Index top,
                const GenerateOptions& options) {
  const auto N = static_cast<Index>(rows.size());
  top = std::min(top, scores.vocab());
  const Array likely = top > 0 ? ops::topk(Tensor(scores.numbers), top, 1, true) : Array({N, 0}, DType::int64);
  Array sentences({N}, DType::int64), ids({N, 1 + top}, DType::int64), given({N, 1 + top}, DType::float64);
  Array chance = Array::zeros({N, 1 + top}, DType::float64);
  for (Index r = 0; r < N; ++r) {
    const Drawn& one = drawn[static_cast<std::size_t>(r)];
    sentences.data<std::int64_t>()[r] = static_cast<std::int64_t>(rows[static_cast<std::size_t>(r)]);
    for (Index i = r * (1 + top), end = i + 1 + top, rank = -1; i < end; ++i, ++rank) {
      const std::int64_t token = rank < 0 ? one.token : likely.data<std::int64_t>()[r * top + rank];
      const double score = scores.row(r)[token];
      ids.data<std::int64_t>()[i] = token;
      given.data<double>()[i] = scores.log_prob(r, token);
      const bool left_out = one.last && *one.last < Ranked{score, token};
      chance.data<double>()[i] = left_out ? kNothing : (score - one.best) / options.temperature;
    }
  }
  const auto exponential = [&](const Array& x) {
    kernels::kernels<double>().elementwise.unary(kernels::Unary::exponential, x.data<double>(), x.data<double>(),
                                                 x.numel());
  };
  exponential(given);
  if (options.method != Method::sample) return {Tensor(sentences), Tensor(ids), Tensor(given), Tensor(given)};
  exponential(chance);
  for (Index i = 0; i < chance.numel(); ++i)
    chance.data<double>()[i] /= drawn[static_cast<std::size_t>(i / (1 + top))].total;
  return {Tensor(sentences), Tensor(ids), Tensor(given), Tensor(chance)};
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
                                            : log_prob / ops::power_of(static_cast<double>(ids.size()), length_penalty);
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
  // Of each row: its sentence. Rows of a sentence are together, in the order of its live hypotheses.
  std::vector<std::size_t> rows(sentences);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  Array tokens = first.clone();
  for (Index step = 0; step < options.max_len && !rows.empty(); ++step) {
    throw_if_interrupted();
    const Scores scores(model.step(tokens), options.normalised);
    const Array attention = model.attention();
    // One token for each row, except for beams.
    std::vector<double> draws(options.method == Method::sample ? rows.size() : 0);
    for (double& draw : draws) generator.uniform<double>(&draw, 1, 0, 1);
    std::vector<Drawn> next(rows.size());
    scores.each_row([&](double* x, Index r, Index n) {
      const auto at = static_cast<std::size_t>(r);
      if (options.method == Method::sample) next[at] = sampled(x, n, options, draws[at]);
      else if (options.method == Method::greedy) kernels::kernels<double>().reduce.argmax(&next[at].token, x, 1, n);
      else
        for (Index i = 0; i < n; ++i) x[i] = scores.log_prob(r, i);
    });
    if (const Index top = nn::Observer::candidates(); top >= 0 && options.method != Method::beam)
      nn::Observer::stepped(step_of(scores, rows, next, top, options));
    std::vector<std::size_t> next_rows;
    std::vector<std::int64_t> from, last;
    Array chosen = Array::full({static_cast<Index>(sentences)}, DType::int64, -1);
    for (std::size_t r = 0; r < rows.size();) {
      Beam& beam = beams[rows[r]];
      const std::size_t count = beam.live().size(), begin = r;
      const auto first_row = static_cast<Index>(begin);
      const auto attended = [&](Index i) { return row_of(attention, first_row + i); };
      if (options.method == Method::beam)
        beam.advance(scores.vocab(), [&](Index i) { return scores.row(first_row + i); }, attended);
      else beam.append(next[begin].token, scores.log_prob(first_row, next[begin].token), attended(0));
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
