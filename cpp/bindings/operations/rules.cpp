// Operations whose derivative is a function of Python's, which computes with Tensors and so can be recorded itself.
#include "autograd/views.h"
#include "bindings/bindings.h"
#include "bindings/call/interpreter.h"
#include "bindings/values/class.h"
#include "bindings/values/convert.h"
#include "bindings/values/fields.h"
#include "ops/ops.h"

namespace qkv::bindings {
namespace {

// Whether a gradient of that shape can be summed to one of the input's.
bool fits(const Shape& input, const Shape& gradient) {
  const Index ahead = gradient.rank() - input.rank();
  for (Index axis = 0; ahead >= 0 && axis < input.rank(); ++axis)
    if (input.dim(axis) != 1 && input.dim(axis) != gradient.dim(axis + ahead)) return false;
  return ahead >= 0;
}

// rule(dys) gives the gradients of the inputs, or None for those without; dys has None for outputs that nobody used.
class RuleOfPython final : public OfPython<Step> {
 public:
  RuleOfPython(std::string operation, py::handle rule) : OfPython(rule), operation_(std::move(operation)) {}

  void backward(std::span<const Tensor> dys, TensorGradients& dx) const override {
    std::vector<std::optional<Tensor>> found;
    {
      const InPython python;
      py::list arriving;
      for (const Tensor& dy : dys) arriving.append(dy);
      found = call_python(object(), py::make_tuple(arriving)).cast<decltype(found)>();
    }
    if (static_cast<Index>(found.size()) != dx.count())
      fail_value(operation_, ": gradients must be ", dx.count(), "; got ", found.size());
    for (Index i = 0; i < dx.count(); ++i) {
      const std::optional<Tensor>& gradient = found[static_cast<std::size_t>(i)];
      if (!gradient || !dx.wants(i)) continue;
      if (!fits(dx.shape(i), gradient->shape()))
        fail_runtime(operation_, ": gradient ", i, " must be ", dx.shape(i), "; got gradient ", gradient->shape());
      dx.add(i, ops::cast(ops::sum_to(*gradient, dx.shape(i)), dx.dtype(i)));
    }
  }

 private:
  const std::string operation_;
};

// What such a rule needs of the forward pass. An output is kept without the node that made it, which holds the rule.
class SavedTensor {
 public:
  SavedTensor(const Tensor& t, bool is_output)
      : numbers_(is_output ? Saved(t.data()) : Saved(t)),
        maker_(is_output ? t.current().node : nullptr),
        output_(t.current().output) {}
  Tensor tensor() const {
    const std::shared_ptr<Node> maker = maker_.lock();
    return grad_enabled() && maker != nullptr ? with_history(numbers_.get(), maker, output_) : numbers_.tensor();
  }

 private:
  const Saved numbers_;
  const std::weak_ptr<Node> maker_;
  const Index output_;
};

}  // namespace

void bind_rules(Functions& m) {
  // Outputs that share an input's memory are views of it that must not be changed while gradients are on.
  m.def("record_rule(operation, outputs, inputs, rule)",
        [](const std::string& operation, const Tensors& outputs, const Tensors& inputs, const py::function& rule) {
          std::vector<Array> arrays;
          for (const Tensor& output : outputs) arrays.push_back(output.data());
          Tensors results = record_step(std::move(arrays), inputs, std::make_unique<RuleOfPython>(operation, rule));
          const NoGrad unrecorded;
          for (Tensor& result : results)
            for (const Tensor& input : inputs)
              if (result.impl()->base == nullptr && result.data().buffer() == input.data().buffer())
                result = shown(result, input);
          return results;
        });
  Class<SavedTensor> kept(m, "KeptTensor");
  def_init<const Tensor&, bool>(kept, "t, is_output=False");
  kept.def("tensor", &SavedTensor::tensor);
}

}  // namespace qkv::bindings
