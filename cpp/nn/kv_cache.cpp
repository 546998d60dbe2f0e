#include "nn/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "ops/checked_integers.h"
#include "ops/ops.h"

namespace qkv::nn {
namespace {

// Copies the first `count` rows of each batch entry to `to`, from row `at` on.
void copy_rows(const Array& to, Index at, const Array& given, Index count) {
  const Array from = packed(given);
  const Index width = from.dim(2) * item_size(from.dtype());
  for (Index b = 0; b < from.dim(0); ++b)
    std::memcpy(static_cast<char*>(to.raw()) + (b * to.dim(1) + at) * width,
                static_cast<const char*>(from.raw()) + b * from.dim(1) * width,
                static_cast<std::size_t>(count * width));
}

}  // namespace

KVCache::Use::Use(KVCache& cache) : cache_(cache) {
  const std::thread::id own = std::this_thread::get_id();
  std::thread::id user;  // nobody
  nested_ = !cache.user_.compare_exchange_strong(user, own, std::memory_order_acquire);
  if (nested_ && user != own)
    fail_runtime(
        "KVCache: a cache must be used by one thread at a time because each call adds its tokens; got a second");
}

KVCache::Use::~Use() {
  if (!nested_) cache_.user_.store(std::thread::id(), std::memory_order_release);
}

KVCache::KVCache(std::optional<Index> capacity) : capacity_(capacity) {
  if (capacity && *capacity < 1) fail_value("KVCache: capacity must be at least 1; got ", *capacity);
}

void KVCache::check(const Tensor& keys, const Tensor& values) const {
  if (capacity_ && length_ + keys.dim(1) > *capacity_)
    fail_value("KVCache: capacity must hold all tokens; got capacity = ", *capacity_, " with ", length(),
               " tokens in it and ", keys.dim(1), " more");
  if (!keys_.defined() || length_ == 0) return;
  const auto fits = [](const Tensor& kept, const Tensor& given) {
    return kept.dim(0) == given.dim(0) && kept.dim(2) == given.dim(2) && kept.dtype() == given.dtype();
  };
  if (!fits(keys_, keys) || !fits(values_, values))
    fail_value("KVCache: keys and values must be those of the layer and batch that filled it, (", keys_.dim(0), ", L, ",
               keys_.dim(2), ") and (", values_.dim(0), ", L, ", values_.dim(2), "); got keys ", keys.shape(),
               ", values ", values.shape());
}

// Memory for `rows` tokens in all. Old memory is left to those that still read it.
void KVCache::make_room(Index rows) {
  if (rows <= keys_.dim(1)) return;
  const Index room = capacity_ ? *capacity_ : std::max<Index>(rows, 2 * keys_.dim(1));
  for (Tensor* kept : {&keys_, &values_}) {
    Array larger(Shape{kept->dim(0), room, kept->dim(2)}, kept->dtype());
    copy_rows(larger, 0, kept->data(), length_);
    *kept = Tensor(std::move(larger));
  }
}

KVCache::Contents KVCache::contents() const {
  if (length_ == 0) return {};
  const NoGrad quiet;
  return {ops::copy(ops::slice(keys_, 1, 0, length_)), ops::copy(ops::slice(values_, 1, 0, length_))};
}

KVCache::Contents KVCache::append(const Tensor& keys, const Tensor& values) {
  check(keys, values);
  const Index added = keys.dim(1);
  if (wants_gradient({keys, values, keys_, values_})) {  // the graph needs every step's rows: join, do not overwrite
    keys_ = length_ == 0 ? keys : ops::concatenate({ops::slice(keys_, 1, 0, length_), keys}, 1);
    values_ = length_ == 0 ? values : ops::concatenate({ops::slice(values_, 1, 0, length_), values}, 1);
    length_ += added;
    return {keys_, values_};
  }
  if (length_ == 0 || !keys_.is_leaf() || std::exchange(left_, false)) {
    const Index room = std::max(capacity_ ? *capacity_ : length_ + added, length_ + added);
    const auto fresh = [&](const Tensor& like, const Tensor& kept) {
      Array store(Shape{like.dim(0), room, like.dim(2)}, like.dtype());
      if (length_ > 0) copy_rows(store, 0, kept.data(), length_);
      return Tensor(std::move(store));
    };
    keys_ = fresh(keys, keys_);
    values_ = fresh(values, values_);
  }
  make_room(length_ + added);
  copy_rows(keys_.data(), length_, keys.data(), added);
  copy_rows(values_.data(), length_, values.data(), added);
  length_ += added;
  return {keys_, values_};
}

void KVCache::reset() {
  keys_ = values_ = {};
  length_ = 0;
}

void KVCache::reorder(const Array& indices) {
  if (!keys_.defined()) return;
  if (indices.rank() != 1) fail_value("KVCache: indices must be (B,); got indices ", indices.shape());
  const Index count = indices.numel(), batches = keys_.dim(0);
  const Array own = ops::checked_integers(indices, 0, batches - 1, [&](std::int64_t from, Index) {
    fail_value("KVCache: indices must be from 0 to ", batches - 1, " because the batch has ", batches, " entries; got ",
               from);
  });
  for (Tensor* kept : {&keys_, &values_}) {
    Array picked(Shape{count, kept->dim(1), kept->dim(2)}, kept->dtype());
    const Array from = packed(kept->data());
    const Index entry = kept->dim(1) * kept->dim(2) * item_size(kept->dtype());
    const Index used = length_ * kept->dim(2) * item_size(kept->dtype());
    for (Index i = 0; i < count; ++i)
      std::memcpy(static_cast<char*>(picked.raw()) + i * entry,
                  static_cast<const char*>(from.raw()) + own.data<std::int64_t>()[i] * entry,
                  static_cast<std::size_t>(used));
    *kept = Tensor(std::move(picked));
  }
}

Tensor behind_inputs(const std::string& layer, KVCache& cache, const Tensor& x,
                     const std::function<Tensor(const Tensor&)>& whole) {
  KVCache::Step step(cache);
  const Index before = cache.length(), length = before + x.dim(1);
  const Tensor y = whole(ops::slice(cache.append(x, x).keys, 1, 0, length));
  const Shape expected{x.dim(0), length, y.rank() > 0 ? y.dim(-1) : 0};
  if (y.shape() != expected)
    fail_value(layer, ": forward must return a Tensor ", expected, " to the module that calls it; got ", y.shape());
  step.commit();
  return ops::slice(y, 1, before, length);
}

void ProjectedMemory::reorder(const Array& indices) {
  if (!keys.defined()) return;
  keys = Tensor(ops::entries(keys.data(), 0, indices));
  values = Tensor(ops::entries(values.data(), 0, indices));
}

std::string KVCache::str() {
  std::string shape;
  try {
    const Use one_thread(*this);
    if (keys_.defined()) shape = text(", batch ", keys_.dim(0), ", width ", keys_.dim(2));
  } catch (const std::runtime_error&) {  // another thread is filling it
  }
  return text("KVCache(", length(), capacity_ ? text(" of ", *capacity_) : "", " tokens", shape, ")");
}

}  // namespace qkv::nn
