// The projected keys and values of the tokens so far, for decoding token by token.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "autograd/tensor.h"
#include "core/noncopyable.h"

namespace qkv::nn {

class KVCache : public std::enable_shared_from_this<KVCache> {
 public:
  // One that reads or changes the cache in several steps; another thread that wants to at the same time gets an error.
  class Use : NonCopyable {
   public:
    explicit Use(KVCache& cache);
    ~Use();

   protected:
    KVCache& cache_;

   private:
    bool nested_;  // in another one of this thread
  };
  // What it adds is forgotten unless it is committed: a call that failed leaves the cache as it was.
  class Step : public Use {
   public:
    explicit Step(KVCache& cache) : Use(cache), before_(cache.length()) {}
    ~Step() {
      if (!committed_) cache_.truncate(before_);
    }
    void commit() { committed_ = true; }

   private:
    const Index before_;
    bool committed_ = false;
  };

  // Without a capacity it grows as needed; with one, more tokens than that are an error.
  explicit KVCache(std::optional<Index> capacity = {});

  // Adds keys and values (B, L, width) after those that are there. What comes back holds all of them: with at least
  // length() rows per batch entry, of which the first length() count.
  struct Contents {
    Tensor keys, values;
  };
  Contents append(const Tensor& keys, const Tensor& values);

  Index length() const { return length_; }
  void reset();
  // Forgets what was appended after the first `length` tokens. Their rows are left to those that still read them.
  void truncate(Index length) {
    left_ = left_ || length < length_;
    length_ = length;
  }
  // Batch entry i continues what was entry indices[i]: for beams.
  void reorder(const Array& indices);
  std::optional<Index> capacity() const { return capacity_; }
  std::string str();
  // Copies of the rows that count, without gradients; not defined where there are none.
  Contents contents() const;

 private:
  void check(const Tensor& keys, const Tensor& values) const;
  void make_room(Index rows);

  std::optional<Index> capacity_;
  Tensor keys_, values_;  // (B, rows, width)
  std::atomic<Index> length_{0};
  bool left_ = false;  // the memory after length_ is that of forgotten rows
  std::atomic<std::thread::id> user_;
};

// For a layer that takes no cache: it holds the inputs so far, on all of which `whole` is called. Gives the new rows;
// messages name `layer`.
Tensor behind_inputs(const std::string& layer, KVCache& cache, const Tensor& x,
                     const std::function<Tensor(const Tensor&)>& whole);

// Keys and values of a sequence that many calls attend to, projected by the first of them.
struct ProjectedMemory {
  Tensor keys, values;                 // (B, Lk, Hkv * D)
  void reorder(const Array& indices);  // batch entry i continues what was entry indices[i]
};

}  // namespace qkv::nn
