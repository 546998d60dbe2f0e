// Steps of the gated recurrent unit for a few sequences at once.
//
// Gates are in rows of 4 H numbers, [s r z n]: the reset gate r, the update gate z, the candidate n, and
// s = W_hn h + b_hn, which is all that n needs of the state before. Gradients are in rows of 4 H likewise:
// [ds dr dz dn], the gradients of what goes into the gates. So the numbers that belong to the input (dr dz dn) are
// neighbours, and so are those that belong to the state (ds dr dz).
//
// Weights are packed once, in the order in which the loops read them: a step reads them all, and the copies that BLAS
// would make of them for each product of so few rows cost more than the product.
#pragma once

#include "core/index.h"

namespace qkv::kernels {

template <class T> struct Recurrent {
  // How many numbers pack_gates and pack_columns write.
  Index (*packed_gates)(Index hidden);
  Index (*packed_columns)(Index depth, Index columns);
  // From weight (3 H, H), gates r z n.
  void (*pack_gates)(T* packed, const T* weight, Index hidden);
  // From b (depth, columns), where row k of the packed matrix is row (k + first) mod depth of b, and the number in row
  // k and column j is at b[k * row_step + j * column_step].
  void (*pack_columns)(T* packed, const T* b, Index row_step, Index column_step, Index first, Index depth,
                       Index columns);
  // One step: h[i] (H) from before[i] (H), which must be other memory. gates[i] (4 H) holds [. r z n] of the input on
  // entry, and with `keep` the gates on return. bias (H) is b_hn.
  void (*gru_step)(T* const* h, T* const* gates, const T* const* before, const T* packed_gates, const T* bias,
                   bool keep, Index rows, Index hidden);
  // The gradients (4 H) of one step of one sequence. dh (H): the gradient of h on entry, its part that goes to the
  // state before past the gates on return, dh z.
  void (*gru_backward)(T* dgates, T* dh, const T* gates, const T* before, Index hidden);
  // c[i] (columns) += a[i] (depth) @ packed_columns.
  void (*add_product)(T* const* c, const T* const* a, const T* packed_columns, Index rows, Index depth, Index columns);
};

}  // namespace qkv::kernels
