#include "core/reproducible.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "core/cpu.h"
#include "core/error.h"

namespace qkv {
namespace {

bool checked(const char* name, bool on) {
  if (on && !has_fused_products())
    fail_runtime(name, ": needs a CPU with fused multiply-add (AVX2 and FMA, or ARM) because one rounding cannot be ",
                 "made of two; got the level ", qkv::name(chosen_isa()));
  return on;
}

bool wanted_by_environment() {
  const char* text = std::getenv("QKV_REPRODUCIBLE");
  const std::string value = text == nullptr ? "" : text;
  if (value != "" && value != "0" && value != "1") fail_value("QKV_REPRODUCIBLE: must be 0 or 1; got ", value);
  return checked("QKV_REPRODUCIBLE", value == "1");
}

std::atomic<bool>& flag() {
  static std::atomic<bool> on{wanted_by_environment()};
  return on;
}

}  // namespace

bool reproducible() { return flag().load(std::memory_order_relaxed); }
void set_reproducible(bool on) { flag() = checked("set_reproducible", on); }

}  // namespace qkv
