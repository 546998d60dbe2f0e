// Which instruction set the kernels use, and how many CPUs there are.
#pragma once

#include <string>
#include <vector>

namespace qkv {

enum class Isa { baseline, avx2, avx512 };

const char* name(Isa isa);
// The best level of this CPU that was also built, or the lower one that QKV_ISA asks for.
Isa chosen_isa();
// Whether the kernels' products are fused with sums: at all levels but that of x86 CPUs before AVX2.
bool has_fused_products();
// Whether the CPU multiplies bfloat16 numbers itself (AVX512-BF16).
bool has_bfloat16_products();
// What this CPU could do, without regard to QKV_ISA.
Isa best_isa();
// How many CPUs this thread may use.
int allowed_cpus();

}  // namespace qkv
