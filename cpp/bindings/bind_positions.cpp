// Tables of positions.
#include "bindings/bindings.h"
#include "bindings/fields.h"
#include "bindings/operation.h"
#include "ops/position_tables.h"

namespace qkv::bindings {
void bind_positions(Functions& m) {
  op(m, "sinusoidal_positions(max_len, dim, base)", ops::sinusoidal_positions);
  op(m, "relative_rotation(offset, dim, base)", ops::relative_rotation);
  op<Any, Index, double, ops::RotaryScaling>(
      m, "rotary_tables(positions, dim, base, scaling=None)",
      [](const Tensor& positions, Index dim, double base, const ops::RotaryScaling& scaling) {
        return ops::rotary_tables(packed(positions.data()).cast(DType::float64), dim, base, scaling);
      });
  op(m, "alibi_slopes(num_heads)", ops::alibi_slopes);
}

}  // namespace qkv::bindings
