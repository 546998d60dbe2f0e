// Names of restrictions as the caller wrote them, in errors of layers that know them by the plain ones.
#pragma once

#include <string>

#include "core/error.h"

namespace qkv::nn {

// "valid_lens" and "attn_mask" with `prefix` before them, where nothing stands there yet.
inline std::string with_prefix(const std::string& prefix, std::string text) {
  for (const std::string name : {"valid_lens", "attn_mask"})
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + name.size())) {
      if (at > 0 && text[at - 1] == '_') continue;
      text.insert(at, prefix);
      at += prefix.size();
    }
  return text;
}

// What f returns; what it throws names memory_valid_lens where f would say valid_lens, if the prefix is "memory_".
template <class F> decltype(auto) named_with(const char* prefix, F&& f) {
  try {
    return f();
  } catch (const ValueError& error) {
    throw ValueError(with_prefix(prefix, error.what()));
  } catch (const TypeError& error) {
    throw TypeError(with_prefix(prefix, error.what()));
  }
}

}  // namespace qkv::nn
