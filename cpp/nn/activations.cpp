#include "nn/activations.h"

#include "core/error.h"

namespace qkv::nn {
namespace {

constexpr struct {
  const char* name;
  Activation activation;
} kActivations[] = {{"relu", Activation::relu},
                    {"gelu", Activation::gelu},
                    {"gelu_tanh", Activation::gelu_tanh},
                    {"gelu_new", Activation::gelu_tanh},
                    {"silu", Activation::silu}};

}  // namespace

Activation activation_named(const char* owner, const char* argument, const std::string& name,
                            std::initializer_list<const char*> names) {
  std::string known;
  for (const char* const* at = names.begin(); at != names.end(); ++at) {
    if (name == *at)
      for (const auto& entry : kActivations)
        if (name == entry.name) return entry.activation;
    known += text(at == names.begin() ? "" : at + 1 == names.end() ? " or " : ", ", "\"", *at, "\"");
  }
  fail_value(owner, ": ", argument, " must be ", known, "; got \"", name, "\"");
}

}  // namespace qkv::nn
