// Decoding: which tokens continue a sequence, one after the other.
//
// Beam search keeps, at each step, the `size` best expansions of the hypotheses that are alive, by the sum of the
// tokens' log-probabilities; those that end leave the beam, so that fewer stay alive, and nothing is given up before
// max_len. Greedy decoding takes the best token of each step, of equal ones the first.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/array.h"
#include "core/random.h"

namespace qkv::models {

struct Hypothesis {
  std::vector<Index> ids;  // without the start; the end, if it was met, is the last
  double log_prob = 0;
  std::vector<Array> attention;               // for each of the ids (Ts), if there is attention
  double score(double length_penalty) const;  // log_prob / length^penalty
};

// The hypotheses of one sentence.
class Beam {
 public:
  Beam(Index size, std::vector<Index> ends) : size_(size), ends_(std::move(ends)), live_(1) {}

  // log_probs(i) gives those of the tokens 0 .. V - 1 after live hypothesis i, attention(i) what that step attended
  // to.
  void advance(Index vocab, const std::function<const double*(Index)>& log_probs,
               const std::function<Array(Index)>& attention);
  // One token after the only live hypothesis.
  void append(Index token, double log_prob, Array attention);

  const std::vector<Hypothesis>& live() const { return live_; }
  // Of each live hypothesis: which of those before it was that it continues.
  const std::vector<Index>& parents() const { return parents_; }
  // The token of the only hypothesis.
  Index latest() const { return (live_.empty() ? done_ : live_).back().ids.back(); }
  // All hypotheses, best first.
  std::vector<Hypothesis> ranked(double length_penalty) const;

 private:
  void place(Hypothesis hypothesis, Index parent);

  const Index size_;
  const std::vector<Index> ends_;
  std::vector<Hypothesis> live_, done_;
  std::vector<Index> parents_{0};
};

// Sequences that are continued together; there is one row for each.
class Continuation {
 public:
  virtual ~Continuation() = default;
  // tokens int64 (N): the last of each row. Scores (N, V) of the next, up to a constant per row.
  virtual Array step(const Array& tokens) = 0;
  // Row i continues what was row indices[i].
  virtual void reorder(const Array& indices) = 0;
  // What the last step attended to, (N, Ts), or undefined.
  virtual Array attention() { return {}; }
  // tokens int64 (B): what was chosen for each sentence, its end too; -1 for those that had ended. Not with beams.
  virtual void chosen(const Array& /*tokens*/) {}
};

enum class Method { greedy, beam, sample };

struct GenerateOptions {
  Method method = Method::greedy;
  Index beam_size = 4;
  double length_penalty = 0;
  double temperature = 1;  // of sampling
  std::optional<Index> top_k;
  std::optional<double> top_p;
  Index max_len = 0;
  std::vector<Index> ends = {};    // tokens that finish a sequence
  Generator* generator = nullptr;  // the default one
  bool normalised = false;         // scores are log-probabilities
};

void check(const char* operation, const GenerateOptions& options);
// first int64 (B): the token after which each sentence starts.
std::vector<std::vector<Hypothesis>> generate(Continuation& model, const Array& first, const GenerateOptions& options);

}  // namespace qkv::models
