// The backward pass of attention: gradients of queries, keys, values and sinks.
#include <math.h>

#include "kernels/attention_gradient.h"

namespace qkv::kernels::QKV_ISA {
namespace {

// Scratch behind GradientScratch's: rows of the block as they stand, and the gradients that are being summed.
template <class T> struct Sums {
  Index key_width, value_width;  // D and Dv, rounded up to whole vectors
  T* queries;                    // (rows, key_width), times scale
  T* dout;                       // (rows, value_width)
  T* dquery;                     // (D, width)
  T* dkey;                       // (keys, key_width)
  T* dvalue;                     // (keys, value_width)
  T* packed;                     // for PackedKeys

  Sums(T* memory, const AttentionProblem<T>& p, Index keys)
      : key_width(padded<T>(p.key_size)), value_width(padded<T>(p.value_size)) {
    queries = memory;
    dout = queries + kBlockRows<T> * key_width;
    dquery = dout + kBlockRows<T> * value_width;
    dkey = dquery + kBlockRows<T> * key_width;
    dvalue = dkey + keys * key_width;
    packed = dvalue + keys * value_width;
  }
  static Index elements(const AttentionProblem<T>& p, Index keys) {
    const Index key_width = padded<T>(p.key_size), value_width = padded<T>(p.value_size);
    return (2 * key_width + value_width) * kBlockRows<T> + keys * (key_width + value_width) +
           PackedKeys<T>::elements(p);
  }
};

template <class T> Index backward_scratch(const AttentionProblem<T>& p, Index keys) {
  return GradientScratch<T>::elements(p) + Sums<T>::elements(p, keys);
}

template <class T> void zero(T* x, Index n) { memset(x, 0, sizeof(T) * n); }

// to (rows, width): a block's queries or gradients of its results, times scale, zeros behind n.
template <class T>
void copy_rows(T* to, Index width, HeadsView<const T> from, const RowBlock<T>& rows, T scale, Index n) {
  for (Index row = 0; row < rows.rows; ++row) {
    const T* x = from.at(rows.batch, rows.head[row], rows.query[row]);
    T* y = to + row * width;
    for (Index i = 0; i < n; ++i) y[i] = x[i] * scale;
    for (Index i = n; i < width; ++i) y[i] = 0;
  }
}

// c (rows, width) += a (rows, depth; stride) @ b (depth, width), width any multiple of kLanes. `skipping` adds nothing
// where a is 0.
template <class T>
void add_product(T* c, Index width, const T* a, Index stride, const T* b, Index rows, Index depth, bool skipping) {
  const Index vectors = width / kLanes<T>;
  if (skipping) {
    for (Index r = 0; r < rows; ++r)
      for (Index k = 0; k < depth; ++k)
        if (const T left = a[r * stride + k]; left != 0)
          for (Index i = 0; i < width; ++i) c[r * width + i] += left * b[k * width + i];
    return;
  }
  const Index parts = (vectors + kMaxVectors - 1) / kMaxVectors;
  for (Index part = 0, from = 0; part < parts; ++part) {
    const Index count = vectors / parts + (part < vectors % parts ? 1 : 0);
    product(Into::add, c + from * kLanes<T>, width, static_cast<const T*>(nullptr), a, stride, b + from * kLanes<T>,
            width, rows, depth, count);
    from += count;
  }
}

// Adds a block's part to dquery (D, width) and, unless they are null, to the sums of dkey and dvalue of keys
// [begin, end). A sum that starts at key `origin`.
template <class T>
void add_block(Sums<T>& sums, GradientScratch<T>& scratch, const GradientBlock<T>& block,
               const AttentionSaved<T>& saved, Index begin, Index end, Index origin, bool keys_too, bool skip_queries,
               bool skip_keys) {
  const RowBlock<T>& rows = block.rows;
  const AttentionProblem<T>& p = *rows.problem;
  const Index width = rows.width;
  const Index size = key_step(end - begin);
  KeyStep step;
  for (Index key = begin; key < end; key += size) {
    const Index n = end - key < size ? end - key : size;
    score_gradient(scratch, step, block, saved, key, n);
    if (p.softcap != 0)
      for (Index i = 0; i < n * width; i += kLanes<T>) {
        const Vec<T> d = load(scratch.dscores + i);
        store(scratch.dscores + i, select(d == Vec<T>{}, Vec<T>{}, d * load(scratch.tiles.slope + i)));
      }
    for (Index i = 0; i < step.count; ++i) {
      const StepPart& part = step.part[i];
      const Index lane = part.vector * kLanes<T>, at = part.from * width + lane, from = key + part.from;
      const auto multiply = skip_keys ? product_skipping<T> : product_transposed<T>;
      multiply(Into::add, sums.dquery + lane, width, nullptr, rows.key(from), p.key.position, scratch.dscores + at,
               width, p.key_size, part.keys(), part.vectors, nullptr);
      if (!keys_too) continue;
      const Index lanes = part.vectors * kLanes<T>, depth = lane + lanes < rows.rows ? lanes : rows.rows - lane;
      add_product(sums.dvalue + (from - origin) * sums.value_width, sums.value_width, scratch.tiles.scores + at, width,
                  sums.dout + lane * sums.value_width, part.keys(), depth, skip_queries);
      add_product(sums.dkey + (from - origin) * sums.key_width, sums.key_width, scratch.dscores + at, width,
                  sums.queries + lane * sums.key_width, part.keys(), depth, skip_queries);
    }
  }
}

template <class T> void add_rows(T* to, Index stride, const T* from, Index width, Index rows, Index n) {
  for (Index row = 0; row < rows; ++row)
    for (Index i = 0; i < n; ++i) to[row * stride + i] += from[row * width + i];
}

template <class T>
void backward(const AttentionGradients<T>& gradients, const T* shift, const AttentionSaved<T>& saved,
              const AttentionProblem<T>& p, AttentionPiece piece, Index keys_begin, Index keys_end, T* memory) {
  const Index batch = piece.batch, kv_head = piece.kv_head;
  GradientScratch<T> scratch(memory, p);
  Sums<T> sums(scratch.rest, p, keys_end - keys_begin);
  PackedKeys<T> packed(p, batch, kv_head, sums.packed);
  GradientBlock<T> block;
  alignas(64) T scale[kBlockRows<T>];
  for (T& factor : scale) factor = p.scale;
  zero(sums.dkey, (keys_end - keys_begin) * sums.key_width);
  zero(sums.dvalue, (keys_end - keys_begin) * sums.value_width);
  for (Index begin = piece.begin; begin < piece.end; begin += kBlockRows<T>) {
    const Index end = begin + kBlockRows<T> < piece.end ? begin + kBlockRows<T> : piece.end;
    RowBlock<T>& rows = block.rows;
    set_rows(rows, packed.problem, batch, kv_head, begin, end);
    if (rows.same_head && end < piece.end && rows.query[0] + 2 * rows.rows <= p.queries) rows.next = kBlockRows<T>;
    const Index from = rows.first > keys_begin ? rows.first : keys_begin;
    const Index to = rows.last < keys_end ? rows.last : keys_end;
    if (from >= to) continue;
    load_gradient_rows(block, scratch, shift, saved);
    packed.include(from, to);
    copy_rows(sums.queries, sums.key_width, p.query, rows, p.scale, p.key_size);
    copy_rows(sums.dout, sums.value_width, saved.dout, rows, T(1), p.value_size);
    // Infinity and NaN must not spread through weights of 0: neither from queries into keys that they may not see ...
    const bool skip =
        !finite(sums.queries, rows.rows * sums.key_width) || !finite(sums.dout, rows.rows * sums.value_width);
    zero(sums.dquery, p.key_size * rows.width);
    add_block(sums, scratch, block, saved, from, to, keys_begin, true, skip, false);
    if (gradients.dquery.data == nullptr) continue;
    // ... nor from keys into queries.
    if (!finite(sums.dquery, p.key_size * rows.width)) {
      zero(sums.dquery, p.key_size * rows.width);
      add_block(sums, scratch, block, saved, from, to, keys_begin, false, skip, true);
    }
    T* lines[kBlockRows<T>];
    for (Index row = 0; row < rows.rows; ++row) lines[row] = sums.queries + row * sums.key_width;
    rows_from_columns(lines, sums.dquery, rows.width, scale, rows.rows, p.key_size);
    for (Index row = 0; row < rows.rows; ++row)
      add_rows(gradients.dquery.at(batch, rows.head[row], rows.query[row]), 0, lines[row], 0, 1, p.key_size);
  }
  const Index n = keys_end - keys_begin;
  if (gradients.dkey.data != nullptr)
    add_rows(gradients.dkey.at(batch, kv_head, keys_begin), gradients.dkey.position, sums.dkey, sums.key_width, n,
             p.key_size);
  if (gradients.dvalue.data != nullptr)
    add_rows(gradients.dvalue.at(batch, kv_head, keys_begin), gradients.dvalue.position, sums.dvalue, sums.value_width,
             n, p.value_size);
}

template <class T> T dot(const T* a, const T* b, Index n) {
  Vec<T> sum = {};
  Index i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) sum += load(a + i) * load(b + i);
  if (i < n) sum += load_part(a + i, n - i) * load_part(b + i, n - i);
  return horizontal_sum<T>(sum);
}

template <class T>
void row_shift(T* shift, const AttentionSaved<T>& saved, const AttentionProblem<T>& p, AttentionPiece piece,
               T* memory) {
  GradientScratch<T> scratch(memory, p);
  GradientBlock<T> block;
  const RowBlock<T>& rows = block.rows;
  KeyStep parts;
  alignas(64) T extra[kBlockRows<T>] = {};
  for (Index begin = piece.begin; begin < piece.end; begin += kBlockRows<T>) {
    const Index end = begin + kBlockRows<T> < piece.end ? begin + kBlockRows<T> : piece.end;
    set_rows(block.rows, p, piece.batch, piece.kv_head, begin, end);
    if (saved.dweights.data != nullptr) {
      load_gradient_rows(block, scratch, static_cast<const T*>(nullptr), saved);
      for (T& sum : extra) sum = 0;
      const Index step = rows.step();
      for (Index key = rows.first; key < rows.last; key += step) {
        const Index n = rows.last - key < step ? rows.last - key : step;
        block_weights(scratch, parts, block, key, n);
        load_dweights(scratch.dscores, rows, saved, key, n);
        for (Index i = 0; i < n * rows.width; i += kLanes<T>) {
          const Vec<T> w = load(scratch.tiles.scores + i), sum = load(extra + i % rows.width);
          store(extra + i % rows.width, select(w == Vec<T>{}, sum, sum + w * load(scratch.dscores + i)));
        }
      }
    }
    for (Index row = 0; row < rows.rows; ++row) {
      const Index at = (piece.batch * p.heads + rows.head[row]) * p.queries + rows.query[row];
      const T* dout = saved.dout.at(piece.batch, rows.head[row], rows.query[row]);
      const T* out = saved.out.at(piece.batch, rows.head[row], rows.query[row]);
      shift[at] = dot(dout, out, p.value_size) + extra[row] - (saved.dlse != nullptr ? saved.dlse[at] : T(0));
    }
  }
}

template <class T>
void sink_gradient(T* dsinks, const T* shift, const AttentionSaved<T>& saved, const AttentionProblem<T>& p,
                   Index head) {
  T sum = 0;
  for (Index batch = 0; batch < p.batches; ++batch)
    for (Index i = 0; i < p.queries; ++i) {
      const Index row = (batch * p.heads + head) * p.queries + i;
      if (!(shift[row] - shift[row] == 0) && !has_gradient(saved, p, batch, head, i)) continue;
      const T weight = static_cast<T>(exp(p.sinks[head] - saved.statistics[2 * row])) * saved.statistics[2 * row + 1];
      sum -= weight * shift[row];
    }
  dsinks[head] += sum;
}

}  // namespace

template <class T> void set_backward_kernels(Attention<T>& table) {
  table.backward_scratch = backward_scratch<T>;
  table.row_shift = row_shift<T>;
  table.backward = backward<T>;
  table.sink_gradient = sink_gradient<T>;
}

template void set_backward_kernels(Attention<float>&);
template void set_backward_kernels(Attention<double>&);

}  // namespace qkv::kernels::QKV_ISA
