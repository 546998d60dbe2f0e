// The keywords of a call of Python from C++.
#pragma once

#include "bindings/operations/attention_options.h"

namespace qkv::bindings {

// The keywords of a call: those that say something, so that a forward that lacks the others can be called.
class Keywords {
 public:
  void add(const char* name, const Tensor& tensor) {
    if (tensor.defined()) keywords_[name] = py::cast(tensor);
  }
  void add(const char* name, const Array& array) {
    if (array.defined()) keywords_[name] = py::cast(Tensor(array));
  }
  // Unless it is what the layer does without being told.
  void add(const char* name, ops::Causal causal, ops::Causal standard = ops::Causal::none) {
    if (causal != standard) keywords_[name] = causal_object(causal);
  }
  void add(const char* name, bool set) {
    if (set) keywords_[name] = py::bool_(true);
  }
  void add(const char* name, const py::object& object) { keywords_[name] = object; }
  void add(const ops::MaskSpec& mask_spec, const char* valid_lens = "valid_lens", const char* attn_mask = "attn_mask") {
    add(valid_lens, mask_spec.valid_lens);
    add(attn_mask, mask_spec.attn_mask);
  }
  const py::dict& all() const { return keywords_; }

 private:
  py::dict keywords_;
};

}  // namespace qkv::bindings
