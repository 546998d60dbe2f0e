// Decoding by functions of Python.
#include "bindings/models/decoding.h"

#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "core/error.h"
#include "nn/module.h"

namespace qkv::bindings {
namespace {

using namespace models;

// Functions of Python: scores (N, V) of what follows tokens (N), another choice of rows, and, or None, what is told of
// the tokens that were chosen, and what the last step attended to.
struct CalledContinuation : Continuation {
  CalledContinuation(const char* name, py::object s, py::object r, py::object t, py::object a)
      : operation(name), scores(std::move(s)), choose(std::move(r)), tell(std::move(t)), attended(std::move(a)) {}

  Array step(const Array& tokens) override {
    Call call(operation);
    const Tensor y = call.floating(call_python(scores, py::make_tuple(to_numpy(tokens, true))), "scores");
    if (y.rank() != 2 || y.dim(0) != tokens.numel() || y.dim(1) < 1)
      fail_value(operation, ": scores must be (", tokens.numel(), ", V) because there are so many tokens; got scores ",
                 y.shape());
    return packed(y.data());
  }
  void reorder(const Array& indices) override { choose(to_numpy(indices, true)); }
  void chosen(const Array& tokens) override {
    if (!tell.is_none()) tell(to_numpy(tokens, true));
  }
  Array attention() override {
    const py::object found = attended.is_none() ? attended : attended();
    return found.is_none() ? Array() : packed(Call(operation).floating(found, "attention_weights").data());
  }

  const char* const operation;
  const py::object scores, choose, tell, attended;
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
  o.beam_size = index_from(beam_size, operation, "beam_size").value_or(o.beam_size);
  o.length_penalty = required_number_from(length_penalty, operation, "length_penalty");
  o.temperature = required_number_from(temperature, operation, "temperature");
  o.top_k = index_from(top_k, operation, "top_k");
  o.top_p = number_from(top_p, operation, "top_p");
  o.max_len = index_from(max_len, operation, "max_len").value_or(0);
  if (py::isinstance<py::list>(end_id) || py::isinstance<py::tuple>(end_id))
    for (const py::handle token : end_id) o.ends.push_back(token_from(token, operation, "end_id", vocab));
  else if (!end_id.is_none()) o.ends = {token_from(end_id, operation, "end_id", vocab)};
  check(operation, o);
  const auto only_with = [&](bool used, Method needed, const char* needs, const char* name, py::handle value) {
    if (used && o.method != needed)
      fail_value(operation, ": ", name, " must be given with method=\"", needs, "\" because \"", chosen,
                 "\" does not use it; got ", name, " = ", described(value), ", method = \"", chosen, "\"");
  };
  only_with(!beam_size.is_none() && o.beam_size != 1, Method::beam, "beam", "beam_size", beam_size);
  only_with(o.temperature != 1, Method::sample, "sample", "temperature", temperature);
  only_with(o.top_k.has_value(), Method::sample, "sample", "top_k", top_k);
  only_with(o.top_p.has_value() && *o.top_p != 1, Method::sample, "sample", "top_p", top_p);
  return o;
}

py::list sentences_from(const std::vector<std::vector<Hypothesis>>& sentences, double length_penalty) {
  py::list result;
  for (const auto& hypotheses : sentences) result.append(hypotheses_from(hypotheses, length_penalty));
  return result;
}

void bind_decoding(Functions& m) {
  // beam_search's scores are log-probabilities as they are, and its functions are no model's.
  for (const char* operation : {"generate", "beam_search"})
    op(m,
       text(operation, ": ", operation, "_steps(step, reorder, first, *, ", kGenerate,
            ", on_token=None, attention=None)"),
       "As generate, of ``step(tokens (N,))``, which gives scores ``(N, V)``, and ``reorder(indices)``; first "
       "``(B,)``. ``on_token(tokens (B,))`` gets what each step chose, -1 for sentences that had ended; not with "
       "beams. ``attention()`` gives what the last step attended to, ``(N, Ts)`` or None.",
       [whole = std::string_view(operation) == "generate"](
           const py::object& step, const py::object& reorder, const Array& first, const GenerateArguments& arguments,
           const py::object& on_token, const py::object& attention, Call& call) {
         if (first.rank() != 1) fail_value(call.operation(), ": first must be (B,); got first ", first.shape());
         GenerateOptions options = arguments.options(call.operation(), -1);
         options.normalised = !whole;
         const GradMode mode(!whole && grad_enabled());
         std::optional<nn::Evaluating> evaluating;
         if (whole) evaluating.emplace();
         CalledContinuation continuation(call.operation(), step, reorder, on_token, attention);
         return sentences_from(generate(continuation, first, options), options.length_penalty);
       });
  m.def("token(value, operation, name)", "The number of a token, checked.",
        [](py::handle value, const std::string& operation, const std::string& name) {
          return token_from(value, operation.c_str(), name.c_str(), -1);
        });
}

}  // namespace qkv::bindings
