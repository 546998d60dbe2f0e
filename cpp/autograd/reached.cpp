#include "autograd/reached.h"

#include <map>
#include <set>
#include <unordered_set>

#include "core/locks.h"

namespace qkv {

std::vector<bool> reached(const Tensor& output, const Tensors& inputs) {
  std::set<std::pair<const Node*, Index>> computed;
  std::unordered_set<const TensorImpl*> leaves;
  std::unordered_set<const Node*> seen;
  std::vector<std::shared_ptr<Node>> waiting;
  const auto arrive = [&](const History& at) {
    if (at.leaf) leaves.insert(at.leaf.get());
    if (!at.node) return;
    computed.emplace(at.node.get(), at.output);
    if (seen.insert(at.node.get()).second) waiting.push_back(at.node);
  };
  arrive(History(output));
  while (!waiting.empty()) {
    const std::shared_ptr<Node> node = std::move(waiting.back());
    waiting.pop_back();
    std::vector<Edge> edges;
    {
      const Lock lock(mutex_of(node.get()));  // a pass may be about to free it
      edges = node->inputs;
    }
    for (const Edge& edge : edges) arrive(edge);
  }
  std::vector<bool> result;
  for (const Tensor& input : inputs) {
    const History at(input);
    result.push_back(at.node ? computed.contains({at.node.get(), at.output}) : leaves.contains(input.impl().get()));
  }
  return result;
}

}  // namespace qkv
