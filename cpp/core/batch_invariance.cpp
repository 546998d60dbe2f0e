#include "core/batch_invariance.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "core/error.h"

namespace qkv {
namespace {

bool wanted_by_environment() {
  const char* text = std::getenv("QKV_BATCH_INVARIANT");
  const std::string value = text == nullptr ? "" : text;
  if (value != "" && value != "0" && value != "1") fail_value("QKV_BATCH_INVARIANT: must be 0 or 1; got ", value);
  return value == "1";
}

std::atomic<bool>& flag() {
  static std::atomic<bool> on{wanted_by_environment()};
  return on;
}

}  // namespace

bool batch_invariant() { return flag().load(std::memory_order_relaxed); }
void set_batch_invariant(bool on) { flag() = on; }

}  // namespace qkv
