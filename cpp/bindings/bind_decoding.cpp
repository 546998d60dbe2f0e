// Beam search over a function of Python, and decoding with an encoder-decoder of Python.
#include "bindings/bind_decoding.h"

#include "bindings/bindings.h"
#include "bindings/call_python.h"
#include "core/error.h"
#include "nn/module.h"

namespace qkv::bindings {
namespace {

using namespace models;

// An encoder and a decoder that are called as Python calls them, so that subclasses of Python's do.
class PythonContinuation : public Continuation {
 public:
  PythonContinuation(const py::object& model, const py::object& src, const py::object& lens)
      : decoder_(model.attr("decoder")) {
    const py::object encoder = model.attr("encoder");
    state_ = decoder_.attr("init_state")(lens.is_none() ? encoder(src) : encoder(src, lens), lens);
  }

  Array step(const Array& tokens) override {
    const py::object ids = to_numpy(tokens.reshaped({tokens.numel(), 1}), false);
    const py::tuple result = call_python(decoder_, py::make_tuple(ids, state_));
    if (result.size() != 2)
      fail_value("generate: decoder must return (logits, state); got ", result.size(), " objects");
    state_ = result[1];
    Call call("generate");
    const Tensor logits = call.floating(result[0], "logits");
    if (logits.rank() != 3 || logits.dim(0) != tokens.numel() || logits.dim(1) != 1)
      fail_value("generate: logits must be (", tokens.numel(),
                 ", 1, V) because one token was given to each; got logits ", logits.shape());
    return packed(logits.data()).reshaped({logits.dim(0), logits.dim(2)});
  }

  void reorder(const Array& indices) override {
    state_ = decoder_.attr("reorder_state")(state_, to_numpy(indices, false));
  }

  Array attention() override {
    if (!py::hasattr(decoder_, "attention_weights")) return {};
    const py::object steps = decoder_.attr("attention_weights");
    if (!py::isinstance<py::sequence>(steps) || py::len(steps) == 0) return {};
    Call call("generate");
    const Array last = packed(call.floating(steps[py::int_(-1)], "attention_weights").data());  // (N, 1, Ts)
    if (last.rank() != 3 || last.dim(1) != 1) return {};
    return last.reshaped({last.dim(0), last.dim(2)});
  }

 private:
  py::object decoder_, state_;
};

// Functions of Python: scores (N, V) of what follows tokens (N), and another choice of rows.
class CalledContinuation : public Continuation {
 public:
  CalledContinuation(py::object step, py::object reorder, py::object on_token)
      : step_(std::move(step)), reorder_(std::move(reorder)), on_token_(std::move(on_token)) {}

  Array step(const Array& tokens) override {
    Call call("generate");
    const Tensor scores = call.floating(step_(to_numpy(tokens, true)), "scores");
    if (scores.rank() != 2 || scores.dim(0) != tokens.numel() || scores.dim(1) < 1)
      fail_value("generate: scores must be (", tokens.numel(), ", V) because there are so many tokens; got scores ",
                 scores.shape());
    return packed(scores.data());
  }
  void reorder(const Array& indices) override { reorder_(to_numpy(indices, true)); }
  void chosen(const Array& tokens) override {
    if (!on_token_.is_none()) on_token_(to_numpy(tokens, true));
  }

 private:
  py::object step_, reorder_, on_token_;
};

py::object attention_of(const Hypothesis& hypothesis) {
  if (hypothesis.attention.empty()) return py::none();
  const Array& first = hypothesis.attention.front();
  Array all({static_cast<Index>(hypothesis.attention.size()), first.numel()}, first.dtype());
  for (std::size_t i = 0; i < hypothesis.attention.size(); ++i)
    std::copy_n(static_cast<const char*>(hypothesis.attention[i].raw()), first.bytes(),
                static_cast<char*>(all.raw()) + static_cast<Index>(i) * first.bytes());
  return to_numpy(all, true);
}

py::list hypotheses_from(const std::vector<Hypothesis>& hypotheses, double length_penalty) {
  py::list result;
  for (const Hypothesis& h : hypotheses)
    result.append(py::make_tuple(py::cast(h.ids), h.score(length_penalty), attention_of(h)));
  return result;
}

py::list beam_search(const py::object& step, const py::object& state, const py::object& start, const py::object& end,
                     py::handle beam_size, py::handle length_penalty, py::handle max_len) {
  const char* name = "beam_search";
  if (PyCallable_Check(step.ptr()) == 0)
    fail_type(name, ": step must be a function of (state, token); got ", described(step));
  GenerateOptions options;
  options.beam_size = index_from(beam_size, name, "beam_size").value_or(0);
  options.length_penalty = required_number_from(length_penalty, name, "length_penalty");
  options.max_len = index_from(max_len, name, "max_len").value_or(0);
  check(name, options);
  if (const auto token = index_from(end, name, "end")) options.ends = {*token};
  Beam beam(options.beam_size, options.ends);
  std::vector<py::object> states{state};
  std::vector<Array> rows;
  for (Index t = 0; t < options.max_len && !beam.live().empty(); ++t) {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    std::vector<py::object> next;
    rows.clear();
    for (std::size_t i = 0; i < beam.live().size(); ++i) {
      const auto& ids = beam.live()[i].ids;
      const py::object result = step(states[i], ids.empty() ? start : py::object(py::int_(ids.back())));
      if (!py::isinstance<py::tuple>(result) || py::len(result) != 2)
        fail_type(name, ": step must return (log_probs, state); got ", described(py::type::of(result)));
      Call call(name);
      const Array row = packed(call.floating(result[py::int_(0)], "log_probs").data()).cast(DType::float64);
      if (row.rank() != 1 || row.numel() == 0)
        fail_value(name, ": log_probs must be (V,), one number for each token; got log_probs ", row.shape());
      if (!rows.empty() && rows.front().numel() != row.numel())
        fail_value(name, ": log_probs must have as many numbers at each step; got ", rows.front().numel(), " and ",
                   row.numel());
      rows.push_back(row);
      next.push_back(result[py::int_(1)]);
    }
    beam.advance(
        rows.front().numel(), [&](Index i) { return rows[static_cast<std::size_t>(i)].data<double>(); },
        [](Index) { return Array(); });
    states.clear();
    for (const Index parent : beam.parents()) states.push_back(next[static_cast<std::size_t>(parent)]);
  }
  py::list result;
  for (const Hypothesis& h : beam.ranked(options.length_penalty))
    result.append(py::make_tuple(py::cast(h.ids), h.score(options.length_penalty)));
  return result;
}

py::list generate_with(const py::object& model, const py::object& src, const py::object& src_valid_lens,
                       py::handle start_id, const GenerateArguments& arguments, Call& call) {
  const char* name = call.operation();
  if (!py::hasattr(model, "encoder") || !py::hasattr(model, "decoder"))
    fail_type(name, ": model must have a generate method, or an encoder and a decoder; got ",
              std::string(py::str(py::type::of(model).attr("__name__"))));
  const Array ids = call.integers(src, "src", false);
  if (ids.rank() != 2) fail_value(name, ": src must be (B, T); got src ", ids.shape());
  const GenerateOptions options = arguments.options(name, -1);
  const Index start = token_from(start_id, name, "start_id", -1);
  const nn::Evaluating evaluating;
  const NoGrad off;
  PythonContinuation continuation(model, src, src_valid_lens);
  return sentences_from(generate(continuation, Array::full({ids.dim(0)}, DType::int64, start), options),
                        options.length_penalty);
}

}  // namespace

std::optional<Index> index_from(py::handle value, const char* operation, const char* name) {
  if (value.is_none()) return {};
  if (PyIndex_Check(value.ptr()) == 0 || PyBool_Check(value.ptr()) != 0)
    fail_type(operation, ": ", name, " must be a whole number; got ", described(value));
  const Shape one = shape_from(value, operation, name);
  if (one.rank() != 1) fail_type(operation, ": ", name, " must be a whole number; got ", one.rank(), " of them");
  return one[0];
}

Index token_from(py::handle value, const char* operation, const char* name, Index vocab) {
  const std::optional<Index> token = index_from(value, operation, name);
  if (!token) fail_type(operation, ": ", name, " must be the number of a token; got None");
  if (*token < 0 || (vocab >= 0 && *token >= vocab))
    fail_value(operation, ": ", name, " must be the number of a token, ",
               vocab >= 0 ? text("0..", vocab - 1) : "0 or more", "; got ", *token);
  return *token;
}

GenerateOptions GenerateArguments::options(const char* operation, Index vocab) const {
  GenerateOptions o;
  const py::handle end_id = values[0], method = values[1], beam_size = values[2], length_penalty = values[3],
                   temperature = values[4], top_k = values[5], top_p = values[6], max_len = values[7];
  const std::string chosen = py::isinstance<py::str>(method) ? method.cast<std::string>() : "";
  if (chosen == "greedy") o.method = Method::greedy;
  else if (chosen == "beam") o.method = Method::beam;
  else if (chosen == "sample") o.method = Method::sample;
  else fail_value(operation, ": method must be \"greedy\", \"beam\" or \"sample\"; got ", described(method));
  o.beam_size = index_from(beam_size, operation, "beam_size").value_or(0);
  o.length_penalty = required_number_from(length_penalty, operation, "length_penalty");
  o.temperature = required_number_from(temperature, operation, "temperature");
  o.top_k = index_from(top_k, operation, "top_k");
  o.top_p = number_from(top_p, operation, "top_p");
  o.max_len = index_from(max_len, operation, "max_len").value_or(0);
  if (py::isinstance<py::list>(end_id) || py::isinstance<py::tuple>(end_id))
    for (const py::handle token : end_id) o.ends.push_back(token_from(token, operation, "end_id", vocab));
  else if (!end_id.is_none()) o.ends = {token_from(end_id, operation, "end_id", vocab)};
  check(operation, o);
  return o;
}

py::list sentences_from(const std::vector<std::vector<Hypothesis>>& sentences, double length_penalty) {
  py::list result;
  for (const auto& hypotheses : sentences) result.append(hypotheses_from(hypotheses, length_penalty));
  return result;
}

void bind_decoding(Functions& m) {
  m.def("beam_search(step, state, start, end, beam_size, length_penalty, max_len)", &beam_search);
  op<py::object, py::object, Integers, GenerateArguments, py::object>(
      m, text("generate: generate_steps(step, reorder, first, *, ", kGenerate, ", on_token=None)"),
      "As generate, of ``step(tokens (N,))``, which gives scores ``(N, V)``, and ``reorder(indices)``; first ``(B,)``. "
      "``on_token(tokens (B,))`` gets what each step chose, -1 for sentences that had ended; not with beams.",
      [](const py::object& step, const py::object& reorder, const Array& first, const GenerateArguments& arguments,
         const py::object& on_token, Call& call) {
        if (first.rank() != 1) fail_value("generate: first must be (B,); got first ", first.shape());
        const GenerateOptions options = arguments.options(call.operation(), -1);
        const NoGrad off;
        CalledContinuation continuation(step, reorder, on_token);
        return sentences_from(generate(continuation, first, options), options.length_penalty);
      });
  op<py::object, py::object, py::object, py::handle, GenerateArguments>(
      m, text("generate(model, src, src_valid_lens, start_id, ", kGenerate, ")"), generate_with);
}

}  // namespace qkv::bindings
