#include "core/turns.h"

#include <chrono>
#include <exception>
#include <utility>

#include "core/parallel.h"

namespace qkv {

void Turns::begin() {
  while (true) {
    mutex_.lock();
    if (paused_ == std::thread::id() || paused_ == std::this_thread::get_id() || paused_forks_ != forks()) return;
    mutex_.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    throw_if_interrupted();
  }
}

void Turns::pause() {
  const auto before = std::exchange(paused_, std::this_thread::get_id());
  paused_forks_ = forks();
  mutex_.unlock();
  std::exception_ptr stop;
  try {
    throw_if_interrupted();
  } catch (...) {
    stop = std::current_exception();
  }
  mutex_.lock();
  paused_ = before;
  if (stop) std::rethrow_exception(stop);
}

}  // namespace qkv
