// Which instruction set the kernels use.
#pragma once

#include <string>
#include <vector>

namespace qkv {

enum class Isa { baseline, avx2, avx512 };

const char* name(Isa isa);
// The best level of this CPU that was also built, or the lower one that QKV_ISA asks for.
Isa chosen_isa();
// What this CPU could do, whatever QKV_ISA says.
Isa best_isa();

}  // namespace qkv
