#include "core/batch_part.h"

namespace qkv {
namespace {

thread_local BatchPart current;

}  // namespace

BatchPart batch_part() { return current; }
void set_batch_part(BatchPart part) { current = part; }

Outside outside_of_part(Index elements) {
  const BatchPart part = current;
  if (part.count == 0 || elements % part.count != 0) return {};
  const Index each = elements / part.count;
  return {part.first * each, (part.total - part.first - part.count) * each};
}

}  // namespace qkv
