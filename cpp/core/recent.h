// Values that are made once for a key, of which the last few are kept.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/locks.h"

namespace qkv {

template <class Key, class Value> class Recent {
 public:
  // The value of that key, make() where there is none yet. Threads may ask at once; then it may be made twice.
  template <class Make> std::shared_ptr<const Value> of(const Key& key, Make make) const {
    if (auto found = known(key)) return found;
    auto made = std::make_shared<const Value>(make());
    const Lock lock(mutex_of(this));
    if (kept_.size() == kMost) kept_.erase(kept_.begin());
    kept_.emplace_back(key, made);
    return made;
  }

 private:
  static constexpr std::size_t kMost = 32;
  std::shared_ptr<const Value> known(const Key& key) const {
    const Lock lock(mutex_of(this));
    for (const auto& [other, value] : kept_)
      if (other == key) return value;
    return nullptr;
  }
  mutable std::vector<std::pair<Key, std::shared_ptr<const Value>>> kept_;
};

}  // namespace qkv
