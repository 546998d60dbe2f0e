// Options and results of decoding, as Python gives and gets them.
#pragma once

#include "bindings/options.h"
#include "models/decoding.h"

namespace qkv::bindings {

// The arguments that every generate() takes, as a dictionary would hold them.
struct GenerateArguments {
  py::object end_id, method, beam_size, length_penalty, temperature, top_k, top_p, max_len;
  models::GenerateOptions options(const char* operation, Index vocab) const;
};

// An integer in range, or nothing for None.
std::optional<Index> index_from(py::handle value, const char* operation, const char* name);
// A token's number, from 0 to vocab - 1; any from 0 on where the size of the vocabulary is not known (-1).
Index token_from(py::handle value, const char* operation, const char* name, Index vocab);
// Per sentence a list of (ids, score, attention).
py::list sentences_from(const std::vector<std::vector<models::Hypothesis>>& sentences, double length_penalty);

}  // namespace qkv::bindings
