// Options and results of decoding, as Python gives and gets them.
#pragma once

#include "bindings/values/operation.h"
#include "models/decoding.h"

namespace qkv::bindings {

// The arguments that every generate() takes, as its head says.
inline constexpr const char* kGenerate =
    "end_id=None, method='greedy', beam_size=None, length_penalty=0.0, temperature=1.0, top_k=None, top_p=None, "
    "max_len=100";
struct GenerateArguments {
  PyObject* const* values = nullptr;
  static void describe(Parameter& p, std::string_view) { p.kind = Argument<Floating>::kind; }
  std::size_t take(Call&, PyObject* const* given, std::span<const Parameter> parameters) {
    values = given;
    return parameters.size();
  }
  // Ends are below `vocab`, unless it is -1.
  models::GenerateOptions options(const char* operation, Index vocab) const;
};

// An integer in range, or nothing for None.
std::optional<Index> index_from(py::handle value, const char* operation, const char* name);
// A token's number, from 0 to vocab - 1; any from 0 on where the size of the vocabulary is not known (-1).
Index token_from(py::handle value, const char* operation, const char* name, Index vocab);
// Per sentence a list of (ids, score, attention).
py::list sentences_from(const std::vector<std::vector<models::Hypothesis>>& sentences, double length_penalty);

}  // namespace qkv::bindings
