// Tables of positions.
#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "ops/position_tables.h"

namespace qkv::bindings {

void bind_positions(Functions& m) {
  m.def("sinusoidal_positions", [](Index max_len, Index dim, double base) {
    return to_numpy(without_gil([&] { return ops::sinusoidal_positions(max_len, dim, base); }), true);
  });
  m.def("relative_rotation", [](Index offset, Index dim, double base) {
    return to_numpy(without_gil([&] { return ops::relative_rotation(offset, dim, base); }), true);
  });
  m.def("rotary_tables", [](py::handle positions, Index dim, double base) {
    Call call("rotary_tables");
    const Array numbers = packed(call.any(positions, "positions").data()).cast(DType::float64);
    const auto [cos, sin] = without_gil([&] { return ops::rotary_tables(numbers, dim, base); });
    return py::make_tuple(to_numpy(cos, true), to_numpy(sin, true));
  });
  m.def("alibi_slopes",
        [](Index num_heads) { return to_numpy(without_gil([&] { return ops::alibi_slopes(num_heads); }), true); });
}

}  // namespace qkv::bindings
