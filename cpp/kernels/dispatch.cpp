// Chooses the level of instructions once, at the first use.
#include "core/cpu.h"
#include "kernels/kernels.h"

namespace qkv::kernels {

#define QKV_DECLARE_LEVEL(level)                       \
  namespace level {                                    \
  template <class T> void fill(Kernels<T>& table);     \
  extern template void fill<float>(Kernels<float>&);   \
  extern template void fill<double>(Kernels<double>&); \
  }

QKV_DECLARE_LEVEL(baseline)
#ifdef QKV_HAVE_avx2
QKV_DECLARE_LEVEL(avx2)
#endif
#ifdef QKV_HAVE_avx512
QKV_DECLARE_LEVEL(avx512)
#endif

#ifdef QKV_HAVE_avx512_bf16
namespace avx512_bf16 {
template <class Family> Family kernels_of();
}
#endif

template <class T> const Kernels<T>& kernels() {
  static const Kernels<T> table = [] {
    Kernels<T> chosen;
    switch (chosen_isa()) {
#ifdef QKV_HAVE_avx512
      case Isa::avx512:
        avx512::fill(chosen);
#ifdef QKV_HAVE_avx512_bf16
        if (has_bfloat16_products()) chosen.packed_bfloat16 = avx512_bf16::kernels_of<PackedBfloat16>();
#endif
        return chosen;
#endif
#ifdef QKV_HAVE_avx2
      case Isa::avx2:
        avx2::fill(chosen);
        return chosen;
#endif
      default:
        baseline::fill(chosen);
        return chosen;
    }
  }();
  return table;
}

template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

}  // namespace qkv::kernels
