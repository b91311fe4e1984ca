#include "worker/trainer/model/chunked_cross_entropy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "worker/trainer/model/cpu_llama_kernels.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kIgnoredTarget = -100;

// Log-probabilities [tokens, vocab_size] in `sum_type`.
at::Tensor LogProbabilities(const at::Tensor& hidden, const at::Tensor& head,
                            at::ScalarType sum_type) {
  at::Tensor logits = at::mm(hidden, head.t());
  logits = logits.to(sum_type);  // Frees those of the product's type.
  return at::log_softmax(logits, 1);
}

// The log-probabilities of `classes` [tokens], and, where `shares` [tokens] is defined, the
// gradient of -sum(shares * log-probabilities) by the logits, in the products' type.
struct ChunkScores {
  at::Tensor of_own;
  at::Tensor grad_logits;
};

ChunkScores ScoresOf(const at::Tensor& rows, const at::Tensor& weights, const at::Tensor& classes,
                     const at::Tensor& shares, at::ScalarType sum_type) {
  if (sum_type == at::kFloat && HasCpuKernel(rows)) {
    const at::Tensor logits = at::mm(rows, weights.t());
    return {CrossEntropyOnCpu(logits, classes, shares), logits};
  }
  const at::Tensor scores = LogProbabilities(rows, weights, sum_type);
  const at::Tensor own = classes.unsqueeze(1);
  const at::Tensor of_own = scores.gather(1, own);
  if (shares.defined()) {
    // (probabilities - one-hot of the class) * share
    scores.exp_().scatter_(1, own, of_own.exp().sub_(1)).mul_(shares.unsqueeze(1));
  }
  return {of_own.squeeze(1), shares.defined() ? scores.to(rows.scalar_type()) : at::Tensor()};
}

// sum += a * b, where the product may be in a shorter type than the sum.
void AddProduct(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == sum.scalar_type()) {
    sum.addmm_(a, b);
  } else {
    sum.add_(at::mm(a, b));
  }
}

class ChunkedLoss : public torch::autograd::Function<ChunkedLoss> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& head, const at::Tensor& targets, int64_t chunk_tokens,
                            at::ScalarType product_type, bool with_gradients) {
    const at::ScalarType sum_type = c10::promoteTypes(at::kFloat, hidden.scalar_type());
    const int64_t tokens = hidden.size(0);
    const at::Tensor weights = head.to(product_type);
    const at::Tensor counted = targets.ne(kIgnoredTarget);
    // A token's class, and its share in the mean.
    const at::Tensor classes = targets.masked_fill(counted.logical_not(), 0).contiguous();
    const at::Tensor shares = counted.to(sum_type).div(counted.sum()).contiguous();
    at::Tensor loss = at::zeros({}, hidden.options().dtype(sum_type));
    at::Tensor grad_hidden;
    at::Tensor grad_head;
    if (with_gradients) {
      grad_hidden = at::empty_like(hidden);
      grad_head = at::zeros_like(head, head.options().dtype(sum_type));
    }
    for (int64_t begin = 0; begin < tokens; begin += chunk_tokens) {
      const int64_t count = std::min(chunk_tokens, tokens - begin);
      const at::Tensor rows = hidden.narrow(0, begin, count).to(product_type);
      const at::Tensor share = shares.narrow(0, begin, count);
      const ChunkScores scores = ScoresOf(rows, weights, classes.narrow(0, begin, count),
                                          with_gradients ? share : at::Tensor(), sum_type);
      loss.sub_(scores.of_own.mul(share).sum());
      if (!with_gradients) continue;
      grad_hidden.narrow(0, begin, count).copy_(at::mm(scores.grad_logits, weights));
      AddProduct(grad_head, scores.grad_logits.t(), rows);
    }
    if (with_gradients) context->save_for_backward({grad_hidden, grad_head});
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    // In place: the head's gradient is large. A second backward pass is an error of torch's.
    return {saved[0].mul_(grads[0]),
            saved[1].mul_(grads[0]),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor ChunkedCrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                               const at::Tensor& targets, int64_t chunk_tokens,
                               at::ScalarType product_type) {
  const bool with_gradients =
      at::GradMode::is_enabled() && (hidden.requires_grad() || head.requires_grad());
  return ChunkedLoss::apply(hidden, head, targets, chunk_tokens, product_type, with_gradients);
}

}  // namespace paceline
